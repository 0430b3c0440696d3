"""Whether a conversion gives the jobs and the account that a generator planted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raw import Raw
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options


def converted(source: str, raw: Raw, folder: Path, **options: Any) -> Conversion:
    """The conversion of the generated files, checked against what was planted."""
    result = convert(source, raw.write(folder), Options(**options))
    agrees(result, raw)
    return result


def agrees(result: Conversion, raw: Raw) -> None:
    """Assert that account and jobs are those planted."""
    account = result.account
    assert account.dropped == dict(raw.dropped)
    assert account.changed == dict(raw.changed)
    assert account.noted == dict(raw.noted)
    assert account.rows_read == raw.rows_read
    assert account.rows_kept == len(raw.jobs) == result.table.num_jobs
    columns = list(raw.jobs[0])
    assert list(result.table.frame.columns)[: len(columns)] == columns
    assert result.table.frame.select(columns).to_dicts() == raw.jobs


def gzipped(paths: Sequence[Path]) -> list[Path]:
    """The same files, gzipped beside themselves."""
    import gzip

    out = []
    for path in paths:
        target = path.with_name(path.name + ".gz")
        target.write_bytes(gzip.compress(path.read_bytes()))
        out.append(target)
    return out
