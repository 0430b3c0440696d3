"""What gavel, allox and sia have in common: who goes before whom, and programs. From docs/gavel.md.

Nothing here imports ringbco. A program is solved only for the value of its optimum: which optimum a policy
takes is told, and compared with that value.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reference.deciding import State
from reference.following import WrongError

OUT = -1
"""The level of a job that may have nothing now."""
CLOSE = 1e-6
"""Of an optimum's value: what solvers take for feasible, and twice that, are 1e-7."""
Owner = tuple[int, str]
"""Of a book of quotas."""
Choices = Callable[[float], list[Any] | None]
"""What a policy chose in its decision at an instant, call by call; None where it chose nothing anew."""


def levels(
    state: State, rows: Sequence[int], wanted: dict[int, int], *, keeps: bool
) -> tuple[dict[int, int], dict[Owner, int], dict[int, list[Owner]]]:
    """The level of each row; what is left of quotas, by owner; and the owners whose quotas bound each row.

    keeps: whether running jobs keep what they hold, and so come before all `rows`.
    """
    left: dict[Owner, int] = {}
    bounds: dict[int, list[Owner]] = {}
    guest: dict[int, bool | None] = {}
    for row in in_order(state, rows):
        quotas = {(book, quota.owner): quota for book, quota in enumerate(state.quotas(row)) if quota}
        for owner, quota in quotas.items():
            left.setdefault(owner, quota.gpus - (quota.held if keeps else 0))
        beyond = [quota for owner, quota in quotas.items() if left[owner] < wanted[row]]
        guest[row] = bool(beyond) and (all(quota.borrow for quota in beyond) or None)
        if quotas and not beyond:
            bounds[row] = list(quotas)
            for owner in quotas:
                left[owner] -= wanted[row]
    for row in [row for row in in_order(state, rows) if guest[row]]:
        quotas = {(book, quota.owner): quota for book, quota in enumerate(state.quotas(row)) if quota}
        caps = [owner for owner, quota in quotas.items() if not quota.borrow]
        if any(left[owner] < wanted[row] for owner in caps):
            guest[row] = None
            continue
        for owner in caps:
            left[owner] -= wanted[row]
        if caps:
            bounds[row] = caps
    keys = {row: (bool(is_guest), -state.jobs.priority[row]) for row, is_guest in guest.items()}
    places = sorted(set(keys.values()))
    level = {row: OUT if guest[row] is None else places.index(keys[row]) for row in rows}
    return level, left, bounds


def by_table(state: State, rows: Sequence[int]) -> list[int]:
    """(priority down, submit_time, row of the table)."""
    jobs = state.jobs
    return sorted(rows, key=lambda row: (-jobs.priority[row], jobs.submit_time[row], row))


def in_order(state: State, rows: Sequence[int]) -> list[int]:
    """The same, the protected first."""
    return sorted(by_table(state, rows), key=lambda row: row not in state.kept)


def start_again(state: State, row: int, old: list[Any] | None) -> bool:
    """On the GPUs that it had, if they are idle."""
    return old is not None and state.can_start(row, old) and state.start(row, old) == 1


class Program:
    """Rows of sums of values, each from 0 to `most`."""

    def __init__(self, most: Sequence[float], *, whole: bool = False) -> None:
        self.most, self.whole = np.array(most), whole
        self.rows: list[tuple[dict[int, float], float]] = []

    def at_most(self, factors: dict[int, float], bound: float) -> None:
        self.rows.append((factors, bound))

    def best(self, gains: Sequence[float]) -> float | None:
        """The greatest sum of gain times value; None where no values keep all rows."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]

        if not self.most.size:
            return 0.0
        table = np.zeros((len(self.rows), self.most.size))
        for number, (factors, _) in enumerate(self.rows):
            table[number, list(factors)] = list(factors.values())
        result = milp(
            -np.array(gains),
            integrality=np.full(self.most.size, int(self.whole)),
            bounds=Bounds(0.0, self.most),
            constraints=LinearConstraint(table, ub=[bound for _, bound in self.rows]),
            options={"mip_rel_gap": 0.0},
        )
        return None if result.x is None else -float(result.fun)

    def check(self, values: Sequence[float]) -> None:
        """Raises WrongError unless they keep all rows."""
        over = (np.array(values) > self.most + CLOSE) | (np.array(values) < -CLOSE)
        if over.any():
            raise WrongError(f"values out of their bounds: {values}")
        for factors, bound in self.rows:
            total = sum(factor * values[at] for at, factor in factors.items())
            if total > bound + CLOSE * max(1.0, abs(bound)):
                raise WrongError(f"{total} is above {bound}: {factors}")


def check_best(found: float, best: float | None) -> None:
    """Raises WrongError unless a value is as great as an optimum's."""
    if best is None or found < best - CLOSE * max(1.0, abs(best)):
        raise WrongError(f"no optimum: {found} where {best} can be")
