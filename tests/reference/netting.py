"""The reference model of netting: who gets back at an instant what it held up to it has never left.

Straight from docs/model.md.
A part of every model that preempts. Nothing here imports ringbco.
"""

import math
from collections import Counter, defaultdict
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from reference.model import GPU


@dataclass(kw_only=True)
class Netting:
    """Of a world with `now`, `running`, `waiting`, `left`, `served`, `result` and `stop`."""

    kept: dict[int, tuple[Any, list[tuple[Any, Any]]]] = field(default_factory=dict)
    """Stays that ended at `kept_at` before their jobs were done, and the columns of those as they were."""
    kept_at: float = -math.inf
    firm: set[int] = field(default_factory=set)
    """Those of them that were protected."""
    stops: dict[int, tuple[tuple[float, str], ...]] = field(default_factory=lambda: defaultdict(tuple))
    """When stays of each row were ended for others, and how: preempted, evicted; or moved."""

    def saved_columns(self, row: int) -> list[tuple[Any, Any]]:
        """What is written of a job, and where."""
        result = self.result
        columns = (self.left, self.served, result.held, result.lost, result.allocations)
        columns += (result.preemptions, result.max_contention, result.max_crossing, self.stops)
        return [(column, copy(column[row])) for column in columns]  # type: ignore[index]

    def interrupt(self, run: Any) -> bool:
        """Off its GPUs before it is done; whether it has held them for any time: else it never did."""
        row = run.row
        if run.start < self.now:
            self.keep(run)
            self.stop(run)
            self.stops[row] += ((self.now, "preempted"),)
            return True
        self.running.remove(run)
        self.tell(row, "moved", "preempted")
        if not self.result.allocations[row]:
            self.result.start[row] = math.nan
        return False

    def tell(self, row: int, before: str, after: str) -> None:
        """How its stay ended at this instant, if it was told that it ended as `before`."""
        if self.stops[row][-1:] == ((self.now, before),):
            self.stops[row] = (*self.stops[row][:-1], (self.now, after))

    def keep(self, run: Any) -> None:
        if self.kept_at < self.now:
            self.kept, self.kept_at, self.firm = {}, self.now, set()
        if self.is_protected(run.row):
            self.firm.add(run.row)
        self.kept.setdefault(run.row, (run, self.saved_columns(run.row)))

    def are_same(self, gpus: list[GPU], others: list[GPU]) -> bool:
        return Counter(s for s, _ in gpus) == Counter(s for s, _ in others)

    def goes_on(self, row: int, gpus: list[GPU]) -> bool:
        """Whether that stay goes on on those GPUs."""
        if self.kept_at < self.now or row not in self.kept or not self.are_same(gpus, self.kept[row][0].gpus):
            return False
        run, saved_columns = self.kept.pop(row)
        for column, value in saved_columns:
            column[row] = value
        run.gpus = gpus
        self.waiting.remove(row)
        self.running.append(run)
        return True
