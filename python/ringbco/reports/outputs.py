"""The files that `report` and `timeline` write: their endings, and which earlier files --force replaces.

A page, a trace and a picture each say in their first bytes that ringbco made them, so that --force never
takes a job table, a result or somebody's photograph for one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ringbco.errors import InputError, UsageError
from ringbco.io.atomic import check_output
from ringbco.io.marks import first_bytes, is_page, is_picture, is_trace
from ringbco.result.schema import RESULT_FILES


class _Kind(NamedTuple):
    option: str
    endings: tuple[str, ...]
    ours: Callable[[bytes], bool]
    name: str


def check_page(path: Path, *, force: bool) -> None:
    """Refuses, before any work is done, a page that should not be written there.

    Raises UsageError for a name that ends otherwise, InputError as `check_output` does and, with `force`,
    where the file there is no earlier page.
    """
    _check(path, force, _Kind("out", (".html", ".htm"), is_page, "page of `ringbco report`"))


def check_trace(path: Path, *, force: bool) -> None:
    """The same of a trace."""
    _check(path, force, _Kind("out", (".json.gz", ".json"), is_trace, "trace of `ringbco timeline`"))


def check_picture(path: Path, *, force: bool) -> None:
    """The same of a picture of the lanes."""
    _check(path, force, _Kind("png", (".png",), is_picture, "picture of `ringbco timeline`"))


def _check(path: Path, force: bool, kind: _Kind) -> None:
    if not path.name.lower().endswith(kind.endings):
        wanted = " or ".join(kind.endings)
        raise UsageError(f"option {kind.option}: {path}: expected a name that ends in {wanted}")
    # Through links too: the bytes would go where they lead.
    target = Path(os.path.realpath(path))
    if target.name in RESULT_FILES and (target.parent / "run.toml").is_file():
        raise InputError("is a file of a result and is never replaced", file=path, hint="give another name")
    check_output(path, force=force)
    if not target.exists():
        return
    start = first_bytes(target)
    # An empty file, such as mktemp makes, has nothing to lose.
    if start is None or (start and not kind.ours(start)):
        raise InputError(
            f"already exists and is no {kind.name}, so --force does not replace it",
            file=path,
            hint="give another name",
        )
