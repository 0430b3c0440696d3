"""The array `jobs` of a JSON document of any length, a part at a time, so that memory holds one part.

A part ends before an object that begins with the key of the first one. That is the end of a job, and not of
something within one, if what stands before it is a whole array: the decoder says so. The last part is decoded
with what stands before and behind the array, so that the whole document has been checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import msgspec

from ringbco.errors import InputError
from ringbco.io.csvtext import LONGEST_ROW, long_row
from ringbco.sources.opening import Opened

_PART: Final = 1 << 23
_BOM: Final = b"\xef\xbb\xbf"
_BEGINS: Final = re.compile(rb'"jobs"\s*:\s*\[\s*(?=\{\s*("(?:[^"\\]|\\.)*")\s*:)')
_CUT: Final = re.compile(rb"\}\s*,\s*(?=\{\s*\Z)")
_GAP: Final = 200  # bytes: as far apart two jobs may be


class _Document(msgspec.Struct, gc=False):
    jobs: list[msgspec.Raw]


class JobsOfJson:
    """The jobs of a file, not decoded yet. made_by: the command that prints such files."""

    def __init__(self, opened: Opened, made_by: str) -> None:
        self._opened, self._made_by = opened, made_by

    def parts(self) -> Iterator[list[msgspec.Raw]]:
        """The jobs in order, some thousands at a time. Raises InputError for what is no such document."""
        for _, _, jobs in self._parts():
            yield jobs

    def _parts(self) -> Iterator[tuple[bytes, bytes, list[msgspec.Raw]]]:
        """What is decoded: what stands before the jobs, but once; their text; the jobs."""
        rows = 0
        with open(self._opened.path, "rb") as file:
            held = file.read(_PART)
            mark = _BOM if held.startswith(_BOM) else b""
            begins = _BEGINS.search(held)
            head = held[len(mark) : begins.end()] if begins is not None else b""
            skipped, held = mark + head, held[len(mark) + len(head) :]
            while more := file.read(_PART if begins is not None else -1):
                held += more
                if begins is None:
                    continue
                jobs, end = self._cut(held, begins[1])
                if jobs:
                    yield skipped, held[:end], self._short(jobs, rows)
                    skipped, held, rows = b"", held[end:], rows + len(jobs)
                elif len(held) > _PART + LONGEST_ROW:
                    raise long_row(self._opened.shown, row=rows + 1)
        try:
            jobs = msgspec.json.decode(head + held, type=_Document).jobs
        except msgspec.DecodeError as error:
            raise self._refused(error) from None
        yield skipped, held, self._short(jobs, rows)

    def _cut(self, held: bytes, key: bytes) -> tuple[list[msgspec.Raw], int]:
        """The jobs that some bytes hold whole, and where the next one begins; none where no job ends."""
        at = len(held)
        while (at := held.rfind(key, 0, at)) >= 0:
            found = _CUT.search(held, max(at - _GAP, 0), at)
            if found is None:
                continue
            try:
                text = b"".join((b"[", memoryview(held)[: found.start() + 1], b"]"))
                return msgspec.json.decode(text, type=list[msgspec.Raw]), found.end()
            except msgspec.DecodeError as error:
                if "truncated" not in str(error):  # else it is the end of something within a job
                    raise self._refused(error) from None
        return [], 0

    def _short(self, jobs: list[msgspec.Raw], rows: int) -> list[msgspec.Raw]:
        for row, job in enumerate(jobs, start=rows + 1):
            if len(memoryview(job)) > LONGEST_ROW:
                raise long_row(self._opened.shown, row=row)
        return jobs

    def _refused(self, error: msgspec.DecodeError) -> InputError:
        return InputError(
            f"is no output of {self._made_by} ({error})", file=self._opened.shown, hint="export it again"
        )

    @cached_property
    def lines(self) -> list[int]:
        """The line on which each job begins; the file is read again."""
        line, lines = 1, []
        for before, text, jobs in self._parts():
            line += before.count(b"\n")
            counted = end = 0
            for job in jobs:
                begins = text.index(job, end)
                line += text.count(b"\n", counted, begins)
                lines.append(line)
                counted, end = begins, begins + len(memoryview(job))
            line += text.count(b"\n", counted)
        return lines
