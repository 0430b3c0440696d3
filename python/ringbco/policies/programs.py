"""Linear and integer programs, solved by HiGHS, and the GPU types over which they are set up.

Invariant: the same program gives the same bytes. One thread, a fixed seed and the dual simplex method see to
that. An optimum that is not unique is the corner at which the simplex method ends, or the first one that
branch and bound meets.

Needs the extra `lp`: `pip install 'ringbco[lp]'`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.io.silence import unprinted

if TYPE_CHECKING:
    from ringbco.run.state import State

_SETTINGS: Final[dict[str, Any]] = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
}
_LINEAR: Final[dict[str, Any]] = {"solver": "simplex", "simplex_strategy": 1}
_WHOLE: Final[dict[str, Any]] = {
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    # These take longer than they save: sia's programs are solved at the root of the tree.
    "presolve": "off",
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
}


def need_solver(policy: str) -> None:
    """Raises UsageError unless HiGHS is installed."""
    try:
        with unprinted():
            import highspy  # noqa: F401 - only whether it is there
    except ModuleNotFoundError as error:
        if error.name != "highspy":
            raise
        raise UsageError(
            f"option policy: {policy}: the package highspy is not installed: pip install 'ringbco[lp]'"
        ) from None


def bounded(name: str, value: object, expected: str, *, least: float, most: float) -> None:
    """Raises UsageError unless a field of a policy is a number from `least` to `most`."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known or not least <= float(value) <= most:  # type: ignore[arg-type] # known says that it is a number
        raise UsageError(f"option P: {name}: {value}: expected {expected}")


def seconds(name: str, value: object) -> None:
    """Raises UsageError unless a field of a policy is a time of more than 0 s."""
    bounded(name, value, "a number of seconds > 0 and <= 1e+09", least=math.ulp(0.0), most=1e9)


def distinct(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each kind of row in ascending order, and the number of each row's kind.

    numpy's `unique` finds the same, at ten times the cost.
    """
    turned = rows[:, ::-1].T
    order = np.lexsort(turned[turned.any(axis=1)]) if turned.any() else np.arange(len(rows))
    ranked = rows[order]
    new = np.ones(order.size, bool)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    of = np.empty(order.size, np.int64)
    of[order] = np.cumsum(new) - 1
    return order[new], of


class InfeasibleError(Exception):
    """No values keep all bounds."""


@dataclass
class Program:
    """Maximises the sum of gain times value: every value from 0 to `most`, rows of sums within bounds.

    whole: whether values are to be whole numbers.
    """

    gains: NDArray[np.float64]
    most: NDArray[np.float64]
    whole: bool = False
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _columns: list[NDArray[np.int32]] = field(default_factory=list)
    _factors: list[NDArray[np.float64]] = field(default_factory=list)

    def row(self, columns: Any, factors: Any, *, lower: float = -math.inf, upper: float = math.inf) -> None:
        """The sum of factor times value over these columns is to lie between `lower` and `upper`."""
        columns = np.asarray(columns, np.int32)
        factors = np.broadcast_to(np.asarray(factors, np.float64), columns.shape)
        self.rows(columns, factors, sizes=np.array([columns.size]), lower=[lower], upper=[upper])

    def rows(
        self,
        columns: NDArray[Any],
        factors: NDArray[np.float64],
        *,
        sizes: NDArray[np.int64],
        lower: list[float],
        upper: list[float],
    ) -> None:
        """Rows of so many columns each, one after the other."""
        self._columns.append(np.asarray(columns, np.int32).ravel())
        self._factors.append(factors.ravel())
        self._starts.extend((self._starts[-1] + np.cumsum(sizes)).tolist())
        self.lower.extend(lower)
        self.upper.extend(upper)

    def solve(self) -> NDArray[np.float64]:
        """The values at an optimum. Raises InfeasibleError where no values keep all bounds."""
        with unprinted():  # some versions print their name before they can be told not to
            return self._solve()

    def _solve(self) -> NDArray[np.float64]:
        import highspy

        model: Any = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.gains.size, len(self.lower)
        model.col_cost_ = -self.gains
        model.col_lower_, model.col_upper_ = np.zeros(self.gains.size), self.most
        model.row_lower_, model.row_upper_ = np.array(self.lower), np.array(self.upper)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self._starts, np.int32)
        model.a_matrix_.index_ = np.concatenate(self._columns)
        model.a_matrix_.value_ = np.concatenate(self._factors)
        if self.whole:
            model.integrality_ = [highspy.HighsVarType.kInteger] * self.gains.size
        solver: Any = highspy.Highs()
        for name, value in (_SETTINGS | (_WHOLE if self.whole else _LINEAR)).items():
            solver.setOptionValue(name, value)
        solver.passModel(model)
        solver.run()
        status, known = solver.getModelStatus(), highspy.HighsModelStatus
        if status in (known.kInfeasible, known.kUnboundedOrInfeasible):  # no program here is unbounded
            raise InfeasibleError
        if status != known.kOptimal:
            raise RuntimeError(f"HiGHS found no optimum: {solver.modelStatusToString(status)}")
        values: NDArray[np.float64] = np.array(solver.getSolution().col_value)
        return np.clip(np.rint(values) if self.whole else values, 0.0, self.most)


class Types:
    """The GPU types of a (virtual) cluster, and what is there; one without a name where servers name none.

    names: in the cluster's order, also where no server is up. The others are as of the last `look`. places:
    (server, GPUs) of the jobs that run, by row; (server, [GPU, ...]) where jobs may hold shares. gpus, idle:
    GPUs of each type that jobs may hold, and that no job holds, or of which a part is left: neither counts
    servers that are down, or what replicas hold. room: what no job holds, in units. together: of each type,
    GPUs of its largest server, of its two largest, and so on. whole: units of a GPU, thousandths where jobs
    may hold shares.
    """

    places: dict[int, list[Any]]
    gpus: NDArray[np.int64]
    idle: NDArray[np.int64]
    room: NDArray[np.int64]
    together: list[NDArray[np.int64]]
    _rates: NDArray[np.float64]
    _there: bytes = b""

    def __init__(self, state: State) -> None:
        """Of a cluster with a job that runs or waits."""
        from ringbco.trace.shares import MILLI_GPU  # and with it polars, which listing policies does without

        mine = np.arange(state.idle.size)
        if state.vc is not None:
            row = (*state.running, *state.waiting)[0]
            mine = np.flatnonzero(np.array(state.vc) == state.jobs.vc[row])
        self.whole = 1 if state.shares is None else MILLI_GPU
        kinds = state.type or (None,) * state.idle.size
        self.names = list(dict.fromkeys(kinds[server] for server in mine))
        self._of = {server: self.names.index(kinds[server]) for server in mine.tolist()}
        self._servers = [
            np.array([server for server, kind in self._of.items() if kind == number])
            for number in range(len(self.names))
        ]

    def look(self, state: State) -> Self:
        """Counts what is there now."""
        self.places = self.places_now(state)
        if state.shares is None:
            usable = state.idle.astype(np.int64)
            held = [part for parts in self.places.values() for part in parts]
            if held:
                np.add.at(usable, *np.array(held).T)
            idle = room = state.idle
        else:  # and so no replicas
            usable = np.where(state.up, state.gpus, 0).astype(np.int64)
            taken = {(server, gpu) for parts in self.places.values() for server, own in parts for gpu in own}
            for server, _ in taken if state.draining.size else ():
                usable[server] += int(server in state.draining)
            rooms = np.rint(state.free_shares * self.whole).astype(np.int64) * state.up[:, None]
            idle, room = (rooms > 0).sum(axis=1), rooms.sum(axis=1)
        self.together = [np.sort(usable[servers])[::-1].cumsum() for servers in self._servers]
        self.gpus = np.array([sums[-1] for sums in self.together])
        self.idle = np.array([idle[servers].sum() for servers in self._servers], np.int64)
        self.room = np.array([room[servers].sum() for servers in self._servers], np.int64)
        return self

    def units(self, state: State, rows: NDArray[np.uint32]) -> NDArray[np.int64]:
        """What each row asks for: GPUs, or thousandths of one where jobs may hold shares."""
        return self.count(state, rows, state.jobs.num_gpus[rows].astype(np.int64))

    def count(self, state: State, rows: NDArray[np.uint32], gpus: NDArray[np.int64]) -> NDArray[np.int64]:
        """So many GPUs of each row, in units: a share of one is less."""
        if state.shares is None:
            return gpus
        own = state.shares[rows].astype(np.int64)
        return np.where(own > 0, own * np.minimum(gpus, 1), gpus * self.whole)

    def places_now(self, state: State) -> dict[int, list[Any]]:
        """Where all that run do so now."""
        if state.shares is None:
            return dict[int, list[Any]](state.allocations)
        return {row: state.gpus_of(row) for row in state.running.tolist()}

    def parts(self, state: State, rows: NDArray[np.uint32]) -> NDArray[Any]:
        """GPUs that each row asks for; less than 1 for a share of one."""
        units = self.units(state, rows)
        return units if self.whole == 1 else units / self.whole

    def _start_again(self, state: State, row: int, old: list[Any]) -> bool:
        """Starts a job on the GPUs that it had, if they are idle. Where jobs may hold shares."""
        share = (state.shares[row] or self.whole) / self.whole  # type: ignore[index] # they may
        free = bool(old) and all(
            state.free_shares[server, gpu] >= share - 1e-9 for server, own in old for gpu in own
        )
        return free and state.start(row, old) == 1

    def start_each(
        self, state: State, starts: Sequence[tuple[int, list[Any], int, int | None]], *, strict: bool = False
    ) -> list[bool]:
        """Starts jobs in turn: (row, GPUs that it had, type, number of GPUs; None for its num_gpus).

        Each gets those that it had if they are idle, else what the placement finds on the type. Returns which
        of them ran then. strict: the first that finds no GPUs is the last that is tried.
        """
        if state.shares is None:
            numbers = [state._type("start", name) for name in self.names]
            given = [(row, old, numbers[kind], gpus) for row, old, kind, gpus in starts]
            # One call for all: a call for each would take most of the time where thousands wait.
            return list[bool](state._do("start", lambda: state._course.start_each(given, strict)))
        ran = []
        for row, old, kind, gpus in starts:
            ran.append(
                self._start_again(state, row, old) or state.start(row, gpus=gpus, type=self.names[kind]) == 1
            )
            if strict and not ran[-1]:
                break
        return ran

    def at(self, row: int) -> int:
        """The type on which a job runs, as a number."""
        return self._of[self.places[row][0][0]]

    def kinds(self, rows: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The types on which jobs run, as `at` tells them."""
        if len(self.names) == 1:
            return np.zeros(rows.size, np.int64)
        return np.array([self.at(row) for row in rows.tolist()], np.int64)

    def rates(self, state: State, rows: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Iterations a second of each row on each type: num_gpus on the fewest servers, alone.

        0 where the job may not use the type, or the type has too few GPUs.
        """
        there = b"".join(sums.tobytes() for sums in self.together)
        if there != self._there:  # the largest servers of the types, on which rates hang
            self._there, self._rates = there, np.full((len(state.jobs), len(self.names)), math.nan)
        new = rows[np.isnan(self._rates[rows, 0])]
        if new.size:
            wanted = state.jobs.num_gpus[new].astype(np.int64)
            for kind in range(len(self.names)):
                self._rates[new, kind] = self.rate(state, new, wanted, kind)
        return self._rates[rows]

    def rate(
        self, state: State, rows: NDArray[np.uint32], wanted: NDArray[np.int64], kind: int
    ) -> NDArray[np.float64]:
        """Iterations a second of each row on so many GPUs of a type, of the fewest servers, alone.

        0 where the job may not use the type, or the type has too few GPUs.
        """
        rates = np.zeros(rows.size)
        servers = np.searchsorted(self.together[kind], wanted) + 1
        fits = wanted <= self.gpus[kind]
        for count in np.unique(servers[fits]):
            those = fits & (servers == count)
            name = self.names[kind]
            rates[those] = state.rate(rows[those], wanted[those], type=name, servers=int(count))
        return rates
