"""What a seed changes: the jobs made anew, days of a recorded trace drawn, or nothing but ties and models."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

from ringbco.errors import UsageError
from ringbco.result.seeds import SAME_JOBS, Drawn
from ringbco.run.options import integer, is_log
from ringbco.trace.jobs import JobTable
from ringbco.trace.resample import DAY, resampled, weeks_of
from ringbco.trace.synthetic import again, check_generated, is_generated
from ringbco.units import seconds_of

T = TypeVar("T")
MOST_SEEDS: Final = 1000
_KEPT: Final = 8
"""Tables and workloads: enough for a few threads."""


class Seeds(NamedTuple):
    """How many seeds runs have, and what is asked of them.

    resample: draw the days of a recorded trace. block: mean length of a block of days, s or a text such as
    "1d"; None for a day. same_jobs: keep the jobs of a table that `generate` made.
    """

    seeds: int = 1
    resample: bool = False
    block: str | float | None = None
    same_jobs: bool = False

    def checked(self) -> Seeds:
        """These, right; UsageError for what is out of range, contradicts itself or means nothing."""
        seeds = integer("seeds", self.seeds, 1, MOST_SEEDS)
        if self.resample and self.same_jobs:
            raise UsageError("options resample, same-jobs: expected one of them at most")
        for name, given in (("resample", self.resample), ("same-jobs", self.same_jobs)):
            if given and seeds == 1:
                raise UsageError(f"option {name}: expected together with --seeds N, N of 2 or more")
        if self.block is not None:
            if not self.resample:
                raise UsageError("option block: expected together with --resample")
            days_of_block(self.block)
        return self._replace(seeds=seeds)

    @property
    def runs(self) -> int:
        """How many runs so many seeds are: the recorded jobs have one of their own."""
        return self.seeds + self.resample

    def name_of(self, number: int, seed: int) -> str:
        """What people call the run of that number, from 0, with that seed; "" where there is only one."""
        if self.runs == 1:
            return ""
        if self.resample:
            return f"draw {number}" if number else "recorded jobs"
        return f"seed {seed}"

    def drawn(self, table: JobTable) -> Drawn:
        """What differs between the runs of `table`.

        Raises InputError for a table that is not what its footer says that `generate` made.
        """
        if self.resample:
            return Drawn("resampled", weeks_of(table), days_of_block(self.block))
        if self.seeds > 1 and not self.same_jobs and is_generated(table):
            check_generated(table)
            return Drawn("generated")
        return SAME_JOBS


def days_of_block(block: str | float | None) -> float:
    """The mean length of a block in days; UsageError unless it is at least a day."""
    if block is None:
        return 1.0
    days = seconds_of("block", block) / DAY
    if not 1.0 <= days < math.inf:
        raise UsageError(f"option block: {block!r}: expected a length of time of at least a day, such as 1d")
    return days


def refuse_logs(drawn: Drawn, policies: list[str]) -> None:
    """Raises UsageError where a log is to be followed by jobs that it does not know."""
    for policy in policies:
        if drawn is not SAME_JOBS and isinstance(policy, str) and is_log(policy):
            raise UsageError(f"option policy: {policy!r}: a log knows its own jobs only; leave it out")


def seeded_options(options: Mapping[str, Any], number: int, seed: int) -> Mapping[str, Any]:
    """The options of the run of that number, from 0: its seed, and that of shuffled ties."""
    if not number:
        return options
    changed = {**options, "seed": seed + number}
    ties = options.get("ties")
    if isinstance(ties, str) and ties.startswith("shuffle:"):
        changed["ties"] = f"shuffle:{(int(ties.removeprefix('shuffle:')) + number) % 2**64}"
    return changed


class Draw(NamedTuple):
    """One draw of a table's jobs: the seed of the first one, and its number, from 1."""

    drawn: Drawn
    seed: int
    number: int

    def of(self, table: JobTable) -> JobTable:
        """The jobs."""
        return table_of(table, self.drawn, self.seed, self.number)


class Draws:
    """The job tables of runs with several seeds, and what is worked out of them; a few are kept."""

    def __init__(self, table: JobTable, drawn: Drawn, seed: int) -> None:
        """seed: of the first draw."""
        self._table = table
        self._drawn = drawn
        self.seed: Final = seed
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def table(self, number: int) -> JobTable:
        """The jobs of the run of that number; of run 0 they are the table itself."""
        if not number or self._drawn.kind == "same jobs":
            return self._table
        return self.kept(("table", number), lambda: table_of(self._table, self._drawn, self.seed, number))

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made under that key, once while it is among the last few that were asked for."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                found: T = self._made[key]
                return found
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


def table_of(table: JobTable, drawn: Drawn, seed: int, number: int) -> JobTable:
    """The jobs of the run of that number, from 0, of a table; seed: of the first draw of days."""
    if not number or drawn.kind == "same jobs":
        return table
    if drawn.kind == "generated":
        return again(table, number)
    # The first run is of the recorded jobs themselves.
    return resampled(table, seed + number - 1, drawn.block or 1.0)
