"""Outages and drains of Slurm nodes, from `sacctmgr -P list events` (docs/sources/slurm.md#events)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.sources.opening import Opened
from ringbco.sources.slurm_times import NO_TIME, instants, moment

COMMAND: Final = "sacctmgr -P list events Format=NodeName,State,TimeStart,TimeEnd,Reason"
_NEEDED: Final = ("nodename", "state", "timestart", "timeend")
_STATES: Final = (("DRAIN", "drain"), ("DOWN", "down"), ("FAIL", "down"))
"""What a State contains, and the kind of the row that it becomes; the first counts."""


def _columns(head: str) -> list[str]:
    first = head.lstrip("\ufeff").split("\n", 1)[0]
    return [name.strip().lower() for name in first.split("|")]


@dataclass(frozen=True)
class SacctmgrEvents:
    """What `sacctmgr -P list events` prints."""

    role: str = "events"
    what: str = "a list of Slurm's events (sacctmgr -P list events)"

    def recognises(self, head: str) -> bool:
        """Whether a header has NodeName and TimeStart."""
        return {"nodename", "timestart"} <= {*_columns(head)}

    def likeness(self, head: str) -> float:
        """As `recognises` has it."""
        return float(self.recognises(head))

    def refuse_missing(self, opened: Opened) -> None:
        """Raise InputError for the columns that the header lacks."""
        missing = [name for name in _NEEDED if name not in _columns(opened.head)]
        if missing:
            names = {"nodename": "NodeName", "timestart": "TimeStart", "timeend": "TimeEnd"}
            told = ", ".join(names.get(name, name.capitalize()) for name in missing)
            raise InputError(f"has no column {told}", file=opened.shown, hint=f"list them with `{COMMAND}`")


class _LeftOut(Counter[str]):
    """How many rows are left out and why, with the first of each."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, str] = {}

    def add(self, why: str, what: str) -> None:
        self[why] += 1
        self.first.setdefault(why, what)

    def notes(self) -> list[str]:
        return [
            f"events left out, {why}: {count:,}, the first {self.first[why]}" for why, count in self.items()
        ]


def read_events(
    opened: Opened,
    epoch: float,
    zone: str | None,
    servers: Sequence[str] | None,
    *,
    named: bool,
    utc: bool,
) -> tuple[pl.DataFrame, list[str]]:
    """The table of outages of the events, and what there is to say of it.

    epoch: what 0 is there, s since 1970. zone: where times without an offset are from. servers: the nodes of
    the cluster; None where they are not known. named: whether they are called so there, else by index. utc:
    whether the log's times are UTC. Raises InputError for the first cell that cannot be read.
    """
    SacctmgrEvents().refuse_missing(opened)
    lines = opened.path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    names = _columns(lines[0])
    number = None if servers is None else {name: at for at, name in enumerate(servers)}
    left_out, rows = _LeftOut(), []
    for line, raw in enumerate(lines[1:], 2):
        text = raw.rstrip("\r")
        if not text.strip() or text == lines[0].rstrip("\r"):
            continue
        cells = dict(zip(names, text.split("|", len(names) - 1), strict=False))
        row = {name: cells.get(name, "").strip() for name in (*_NEEDED, "reason")}
        node, state = row["nodename"], row["state"]
        kind = next((kind for word, kind in _STATES if word in state.upper()), None)
        if not node:
            left_out.add("of no node", f"in line {line}")
        elif kind is None:
            left_out.add("whose State is neither drained nor down", f"in line {line}: {state or 'none'}")
        elif number is not None and node not in number:
            left_out.add("of nodes that are no servers", f"in line {line}: {node}")
        else:
            rows.append((line, node, kind, row["timestart"], row["timeend"], row["reason"].rstrip("|")))

    def fault(line: int, column: str, value: str, expected: str, hint: str = "") -> InputError:
        return InputError(
            expected, file=opened.shown, row=line - 1, line=line, column=column, value=value, hint=hint
        )

    read = _reader(zone, utc=utc, fault=fault)
    made: list[tuple[str | int, float, float | None, str, str | None]] = []
    for line, node, kind, start, end, reason in rows:
        down = read(line, "TimeStart", start)
        endless = end.lower() in ("", *NO_TIME)
        up = None if endless else read(line, "TimeEnd", end)
        if up is not None and up <= max(down, epoch):
            why = "over before the log's epoch" if up > down else "of no length"
            left_out.add(why, f"in line {line}: {node}")
            continue
        server = node if named or number is None else number[node]
        cause = None if reason.lower() in ("", "none") else reason
        made.append((server, max(0.0, down - epoch), None if up is None else up - epoch, kind, cause))
    kind_of_server = pl.String if named or number is None else pl.UInt32
    frame = pl.DataFrame(
        made,
        schema={
            "server": kind_of_server,
            "down_at": pl.Float64,
            "up_at": pl.Float64,
            "kind": pl.String,
            "cause": pl.String,
        },
        orient="row",
    )
    return frame, left_out.notes()


def _reader(
    zone: str | None, *, utc: bool, fault: Callable[..., InputError]
) -> Callable[[int, str, str], float]:
    """What reads a time of the events, on the clock of the log, s since 1970."""
    known: dict[str, float] = {}

    def read(line: int, column: str, text: str) -> float:
        if text in known:
            return known[text]
        time, zoned = instants(pl.Series([text], dtype=pl.String)).row(0)
        if time is None:
            raise fault(line, column, text, "a time such as 2026-05-01T08:00:00")
        if zoned != utc and (zoned or zone is None):
            other = "an offset, as the log's times have" if utc else "no offset, as the log's times have none"
            raise fault(line, column, text, f"a time with {other}", "--timezone ZONE makes all of them UTC")
        try:
            known[text] = moment(text, column, zone, utc=utc)
        except UsageError as error:
            raise fault(line, column, text, str(error)) from None
        return known[text]

    return read
