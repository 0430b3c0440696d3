"""The files that `report` and `timeline` write: their endings, and which earlier files --force replaces."""

from __future__ import annotations

import os
from pathlib import Path

from ringbco.errors import InputError, UsageError
from ringbco.io import marks
from ringbco.io.atomic import check_output
from ringbco.result.tables import RESULT_FILES


def check_page(path: Path, *, force: bool) -> None:
    """Refuses, before any work is done, a page that should not be written there.

    Raises UsageError for a name that ends otherwise, InputError as `check_output` does and for a file of a
    result.
    """
    _check(path, "out", (".html", ".htm"), marks.PAGE, force=force)


def check_trace(path: Path, *, force: bool) -> None:
    """The same of a trace."""
    _check(path, "out", (".json.gz", ".json"), marks.TRACE, force=force)


def _check(path: Path, option: str, endings: tuple[str, ...], mark: marks.Mark, *, force: bool) -> None:
    if not path.name.lower().endswith(endings):
        raise UsageError(f"option {option}: {path}: expected a name that ends in {' or '.join(endings)}")
    # Through links too: the bytes would go where they lead.
    target = Path(os.path.realpath(path))
    if target.name in RESULT_FILES and (target.parent / "run.toml").is_file():
        raise InputError("is a file of a result and is never replaced", file=path, hint="give another name")
    check_output(path, mark, force=force)
