"""What is kept of a run: hashes of its tables' contents, so that no library's file format matters."""

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from ringbco import Outcome
from ringbco.result.schema import CAUSES_SCHEMA

HERE: Final = Path(__file__).parent
_DIGITS: Final = 16
# Times of this run on this machine; and the counts, which are kept as they are.
_TIMINGS: Final = ("engine_seconds", "total_seconds", "jobs_per_second")
_COUNTS: Final = ("events", "decisions")


class Digest(NamedTuple):
    """A run's line: a hash of each table; or, of a run that ends in an error, its message alone.

    jobs: without the causes, which have a hash of their own. summary: without timings and counts.
    counts: events and decisions.
    """

    jobs: str = ""
    causes: str = ""
    allocations: str = ""
    timeline: str = ""
    summary: str = ""
    counts: str = ""
    error: str = ""

    def changes(self, other: "Digest") -> list[str]:
        """The parts that differ."""
        return [name for name, a, b in zip(self._fields, self, other, strict=True) if a != b]


def keep(outcome: Outcome) -> Digest:
    """What is kept of an outcome."""
    columns = outcome.jobs.get_columns()
    summary = {key: value for key, value in outcome.summary.items() if key not in _TIMINGS + _COUNTS}
    return Digest(
        jobs=of_columns(column for column in columns if column.name not in CAUSES_SCHEMA),
        causes=of_columns(column for column in columns if column.name in CAUSES_SCHEMA),
        allocations="none" if outcome.allocations is None else of_columns(outcome.allocations.iter_columns()),
        timeline=of_columns(outcome.timeline.iter_columns()),
        # json writes a float as repr does: exactly.
        summary=of_bytes([json.dumps(summary, sort_keys=True).encode()]),
        counts="/".join(str(outcome.summary[name]) for name in _COUNTS),
    )


def failed(error: Exception) -> Digest:
    """What is kept of a run that ends in an error."""
    return Digest(error=f"{type(error).__name__}: {error}")


def of_columns(columns: Iterable[pl.Series]) -> str:
    """The hash of a table's column names, types and values, these as raw little-endian bytes."""
    return of_bytes(part for column in columns for part in _parts(column))


def _parts(column: pl.Series) -> Iterator[bytes]:
    yield f"{column.name}:{column.dtype}:{len(column)};".encode()
    if column.null_count():
        yield b"nulls" + column.is_null().to_numpy().tobytes()
        column = column.drop_nulls()
    if column.dtype == pl.String:
        texts = [text.encode() for text in column.to_list()]
        yield struct.pack(f"<{len(texts)}Q", *map(len, texts)) + b"".join(texts)
    else:
        values = column.to_numpy()
        yield values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def of_bytes(parts: Iterable[bytes]) -> str:
    """The first digits of the SHA-256 of the parts, one after another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:_DIGITS]


def read(name: str) -> dict[str, Digest]:
    """The kept results of a file, by case."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return {case: Digest(*parts) for case, *parts in (line.split("\t") for line in lines)}


def write(name: str, kept: dict[str, Digest]) -> None:
    """Writes a file of kept results, one line a case."""
    lines = ["\t".join((case, *kept[case])).rstrip("\t") for case in sorted(kept)]
    assert all(line.count("\n") == 0 and line.count("\t") <= len(Digest._fields) for line in lines)
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
