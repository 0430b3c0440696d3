"""What makes a job table of a file that is none yet: the command that reads it, filled in."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from pathlib import Path
from typing import Final

import polars as pl

from ringbco.errors import InputError
from ringbco.io.foreign import packed
from ringbco.io.process import scratch_folder
from ringbco.sources import convert, not_jobs_yet
from ringbco.sources.csv_table import DURATIONS, TIMES
from ringbco.sources.csv_table import SOURCE as CSV
from ringbco.sources.json_lines import keys
from ringbco.sources.opening import heads, is_tar_in_gzip
from ringbco.sources.records import first_record, separator
from ringbco.sources.source import Options
from ringbco.trace.other_names import convert_command
from ringbco.trace.schema import COLUMNS, REQUIRED, convert_hint, other_names_of
from ringbco.units import is_number

_STAND_INS: Final = {"job_id": "a", "submit_time": "0", "num_gpus": "1", "duration": "1"}
_FORMS: Final = (
    "write a time as 2024-05-01 08:00:00 (`ringbco convert csv` reads no day or month before the year, and"
    " no AM or PM), or as seconds"
)


def remedy(file: str | os.PathLike[str], error: InputError) -> InputError | None:
    """What to raise instead of the `error` of a file that was to be a job table; None where it says all."""
    path = Path(file)
    try:
        starts = list(heads(path))
        raw = not_jobs_yet(str(path), starts)
    except InputError:
        return None
    if raw is not None:
        return raw
    found = _form(path, starts)
    if found is not None:
        form, names = found
        hint = convert_hint(os.fspath(file), names)
        return InputError(f"is {form}, not a job table yet", file=file, hint=hint)
    listed = _listed(starts)
    if listed is not None:
        lines = f"`jq -c '.[]' {shlex.quote(os.fspath(file))} > jobs.jsonl` makes JSON Lines of it"
        return error.replace(hint=f"{lines}, and {convert_hint('jobs.jsonl', listed)}")
    return _cell(os.fspath(file), error, separator(starts[0]))


def _form(path: Path, starts: list[str]) -> tuple[str, list[str]] | None:
    """What a table is that only `convert csv` reads, and its columns' names.

    An object of JSON is taken for a job only if one of its keys is like a column of the job table, or other
    objects follow.
    """
    tables = [head for head in starts if CSV.role(head) is not None]
    if len(tables) != 1:
        return None
    [head] = tables
    found = keys(head)
    if found is not None:
        lines = [line for line in head.split("\n") if line.strip()]
        several = len(lines) > 1 and keys(lines[1]) is not None
        like = other_names_of(REQUIRED, found)[0]
        return ("JSON Lines", list(found)) if several or like else None
    names = [name for name in first_record(head) if name]
    form = _packing(path)
    return None if form is None or not names[1:] else (form, names)


def _packing(path: Path) -> str | None:
    """What a file is packed in that a job table is not read from, as one compressed with gzip is."""
    with open(path, "rb") as file:
        start = file.read(512)
    if start.startswith(b"PK"):
        return "a zip archive"
    if is_tar_in_gzip(path, start):
        return "a tar archive"
    found = packed(start)
    return None if found is None else found[0]


def _listed(starts: list[str]) -> list[str] | None:
    """The keys of the first object of a list in JSON, if one of them is like a column of the job table."""
    head = starts[0].lstrip()
    if not head.startswith("["):
        return None
    try:
        first, _ = json.JSONDecoder().raw_decode(head[1:].lstrip())
    except (ValueError, RecursionError):
        return None
    found = keys(json.dumps(first)) or ()
    return list(found) if other_names_of(REQUIRED, found)[0] else None


def _cell(file: str, error: InputError, mark: str) -> InputError | None:
    """The error of a cell that `convert csv` reads, with the command; None for any other error."""
    column, value = error.column or "", error.value
    if column not in COLUMNS or not isinstance(value, str) or is_number(value):
        return None
    if COLUMNS[column].dtype is not pl.String and _reads(column, value):
        clocked = column in (*TIMES, *DURATIONS) and any(letter.isdigit() for letter in value)
        if "," in value and mark == ";":  # a decimal point to some
            return error.replace(hint="write a decimal point, and no separator of thousands")
        what = "dates and hours, minutes and seconds" if clocked and "," not in value else "such cells"
        return error.replace(hint=f"`{convert_command(file, {})}` reads {what}")
    if column == "submit_time" and re.search(r"\d[-/.:]\d", value):
        return error.replace(hint=_FORMS)
    return None


def _reads(column: str, value: str) -> bool:
    """Whether `convert csv` reads a cell of that column: it is given a table of it."""
    row = {**_STAND_INS, column: value}
    with scratch_folder("ringbco-") as folder:
        path = folder / "row.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([row.keys(), row.values()])
        try:
            convert("csv", [path], Options(strict=True))
        except InputError:
            return False
    return True
