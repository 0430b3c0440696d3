"""Requests and who answered them: what no engine of requests could do (docs/serving.md).

No request is on a replica that does not serve, none is answered sooner than its tokens take, and no replica
has more than fit. Which replica a request goes to, and who is next, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ringbco.audits.answering import misfit, why_not
from ringbco.audits.figures import FATES
from ringbco.audits.findings import Finding, number
from ringbco.audits.inputs import replicas_of
from ringbco.checker.inputs import Batches, Steps
from ringbco.checker.requests import busy, cut
from ringbco.errors import show_value

if TYPE_CHECKING:
    from ringbco.audits.facts import Bools, Facts, Floats, Ints
    from ringbco.audits.findings import Check
    from ringbco.checker.inputs import Answering, Service

RELATIVE: Final = 1e-9
"""How far times of answers may be from what they should be, relative to how long they took."""
PICO: Final = 1e12
"""Times of a step are whole picoseconds, these to a second."""


@dataclass(frozen=True)
class Rows:
    """Requests of one service, a value each; times in s. at: their rows of requests.parquet.

    on: the row of replicas.parquet of who answered each, -1 where there is none of that number. The rest as
    the table of requests, requests.parquet and replicas.parquet have it. ulp: how fine the times are.
    """

    at: Ints
    on: Ints
    arrival: Floats
    taken: Ints
    given: Ints
    cached: Ints
    start: Floats
    first: Floats
    finish: Floats
    serves: Floats
    drains: Floats
    end: Floats
    quickness: Floats
    ulp: float


class Looker:
    """The checks of one service."""

    def __init__(self, check: Check, service: Service, rows: Rows) -> None:
        self.check, self.service, self.rows = check, service, rows

    def _blame(self, bad: Bools, says: Callable[[int], str], at: Ints | None = None) -> None:
        """Counts a failure for each request, or each of `at`, of which something is odd."""
        rows, check = self.rows, self.check
        odd = check.broken(bad)
        odd = odd if at is None else at[odd]
        check.add(
            (
                Finding(
                    check.code,
                    f"requests.parquet, row {rows.at[i] + 1}: {says(i)}",
                    time=float(rows.start[i]),
                )
                for i in odd.tolist()
            ),
            odd.size,
        )

    def found(self, told: pl.Series) -> bool:
        """Whether every replica is there. told: the column replica."""
        lost, name = self.rows.on < 0, show_value(self.service.name)
        self._blame(lost, lambda i: f"is on replica {told[int(self.rows.at[i])]} of {name}; there is none")
        return not lost.any()

    def times(self) -> None:
        """In order, and on a replica that serves."""
        rows, name = self.rows, show_value(self.service.name)
        self._blame(
            ~(rows.arrival <= rows.start),
            lambda i: f"starts before its arrival at {number(rows.arrival[i])} s",
        )
        self._blame(
            ~(rows.serves <= rows.start),
            lambda i: f"starts before its replica of {name} serves, from {number(rows.serves[i])} s on",
        )
        self._blame(
            ~(rows.finish <= rows.end),
            lambda i: (
                f"finishes at {number(rows.finish[i])} s on a replica of {name} that ends at"
                f" {number(rows.end[i])} s"
            ),
        )
        whole = isinstance(self.service.kind, Batches)
        what = "starts" if whole else "arrives"
        self._blame(
            (rows.start if whole else rows.arrival) >= rows.drains,
            lambda i: f"{what} when its replica of {name} drains, from {number(rows.drains[i])} s on",
        )

    def tokens(self, keys: Steps) -> None:
        """First tokens and last ones are no sooner than steps of a replica that has no other request."""
        rows = self.rows
        self._blame(
            ~((rows.start <= rows.first) & (rows.first <= rows.finish)),
            lambda i: (
                f"has its first token at {number(rows.first[i])} s; expected it from {number(rows.start[i])}"
                f" to {number(rows.finish[i])} s"
            ),
        )
        fresh, given = (rows.taken - rows.cached).astype(np.float64), rows.given.astype(np.float64)
        step, prefill, decode, context = (
            np.rint(key / rows.quickness * PICO) / PICO
            for key in (keys.step, keys.prefill, keys.decode, keys.context)
        )
        each = step + decode + context * rows.taken
        parts = np.maximum(1.0, np.ceil(fresh / keys.max_step_tokens))
        least = each + (parts - 1.0) * step + prefill * fresh
        self._soon(rows.first - rows.start, least, "its first token")
        more = (given - 1.0) * each + context * given * (given - 1.0) / 2.0
        self._soon(rows.finish - rows.first, more, "the tokens after it")
        alone = (given == 1) & (rows.finish != rows.first)
        self._blame(alone, lambda i: f"finishes at {number(rows.finish[i])} s, and not with its only token")
        self._room(np.ones(rows.at.size, np.int64), keys.max_running, "requests", "max_running")
        self._room(rows.taken + rows.given, keys.kv_tokens, "tokens", "kv_tokens")

    def _soon(self, took: Floats, least: Floats, what: str) -> None:
        slack = RELATIVE * least + 4.0 * self.rows.ulp
        self._blame(
            took < least - slack,
            lambda i: f"{what} took {number(took[i])} s; expected {number(least[i])} s or more",
        )

    def _room(self, amounts: Ints, most: int, what: str, key: str) -> None:
        """No replica has more at once; those that finish as others start make room."""
        rows = self.rows
        at = np.tile(np.arange(rows.at.size), 2)
        change = np.concatenate([-amounts, amounts])
        time = np.concatenate([rows.finish, rows.start])
        order = np.lexsort((change > 0, time, rows.on[at]))
        # The changes of a replica add up to nothing, so that one sum is that of each.
        held = np.cumsum(change[order])
        over = (held > most) & (change[order] > 0)
        name = self.service.name
        said = np.zeros(rows.at.size, np.int64)
        said[at[order][over]] = held[over]
        self._blame(
            over[change[order] > 0],
            lambda i: f"its replica then has {said[i]} {what}; {name}.{key} is {most}",
            at[order][change[order] > 0],
        )

    def batches(self, keys: Batches) -> None:
        """Requests that a replica takes at once are a batch: they finish together, before the next begins."""
        rows = self.rows
        self._blame(~np.isnan(rows.first), lambda _: "has a first token; its service answers in batches")
        order = np.lexsort((rows.finish, rows.start, rows.on))
        on, start, finish = rows.on[order], rows.start[order], rows.finish[order]
        if not on.size:
            return
        begins = np.append(True, (np.diff(on) != 0) | (np.diff(start) != 0))
        head = np.flatnonzero(begins)
        size = np.diff(np.append(head, on.size))
        tail = head + size - 1
        some = order[head]
        self._blame(
            finish[head] != finish[tail],
            lambda i: "its batch does not finish together",
            some,
        )
        largest = keys.seconds[-1][0]
        sizes, seconds, wanted = (np.zeros(on.size) for _ in range(3))
        sizes[some] = size
        self._blame(
            size > largest, lambda i: f"its batch has {sizes[i]:.0f} requests; the largest is {largest}", some
        )
        needs = np.interp(size, *np.array(keys.seconds, np.float64).T) / rows.quickness[some]
        took = finish[tail] - start[head]
        seconds[some], wanted[some] = took, needs
        self._blame(
            ~(np.abs(took - needs) <= RELATIVE * needs + 4.0 * rows.ulp),
            lambda i: f"its batch takes {number(seconds[i])} s; expected {number(wanted[i])}",
            some,
        )
        early = (on[head][1:] == on[head][:-1]) & (start[head][1:] < finish[tail][:-1])
        self._blame(early, lambda _: "its batch begins before the one before it ends", some[1:])
        oldest = np.minimum.reduceat(rows.arrival[order], head)
        self._blame(
            (size < largest) & (start[head] < oldest + keys.max_wait),
            lambda i: (
                f"its batch is not full, and its oldest request has waited less than {keys.max_wait:g} s"
            ),
            some,
        )


def check_requests(check: Check, facts: Facts) -> None:
    """Every request is answered by a replica of its service that serves, and has room for it."""
    check.not_run = why_not(facts.outcome)
    answering, told, replicas = facts.inputs.answering, facts.outcome.requests, facts.outcome.replicas
    if check.not_run is not None or answering is None or told is None or replicas is None:
        return
    odd = misfit(told, answering)
    if not check.expect(holds=odd is None, message=odd or ""):
        return
    for place, service in enumerate(answering.services):
        rows = _rows(facts, answering, place)
        looker = Looker(check, service, rows)
        if not looker.found(told["replica"]):
            continue
        looker.times()
        if isinstance(service.kind, Steps):
            looker.tokens(service.kind)
        else:
            looker.batches(service.kind)
    if not check.failed:
        _check_run(check, facts, answering)


def _rows(facts: Facts, answering: Answering, place: int) -> Rows:
    asked, answers, replicas = answering.requests, answering.answers, facts.outcome.replicas
    assert asked is not None
    assert answers is not None
    assert replicas is not None
    at = np.flatnonzero(asked.service == place)
    own = replicas.with_row_index("at").filter(service=answering.services[place].name).sort("replica")
    numbers, row = own["replica"].to_numpy(), own["at"].to_numpy().astype(np.int64)
    by = np.searchsorted(numbers, answers.replica[at])
    there = by < numbers.size
    there[there] = numbers[by[there]] == answers.replica[at][there]
    on = np.full(at.size, -1)
    on[there] = row[by[there]]

    def of(name: str) -> Floats:
        column = replicas[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        met: Floats = np.append(column, np.nan)[on]  # NaN of replicas without a row
        return met

    finish = answers.finish[at]
    server = np.minimum(np.append(replicas["server"].to_numpy(), 0)[on], answering.quickness.size - 1)
    return Rows(
        *(at, on, asked.arrival[at], asked.taken[at], asked.given[at], asked.cached[at]),
        *(answers.start[at], answers.first_token[at], finish),
        *(of("serves_from"), of("drains_from"), of("end_time"), answering.quickness[server]),
        float(np.spacing(finish.max(initial=0.0))),
    )


def _check_run(check: Check, facts: Facts, answering: Answering) -> None:
    """The run ends with the last answer or job; and what summary.json may say of what no row tells."""
    answers, asked, replicas = answering.answers, answering.requests, replicas_of(facts.outcome.replicas)
    assert answers is not None
    assert asked is not None
    last = max(float(answers.finish.max()), float(facts.finish.max()))
    ended = replicas.end[(replicas.ended == "end of run").to_numpy()]
    # A job that was refused or ended without a row may have been the last; nobody tells when.
    untold = any(facts.outcome.summary.get(name) for name in FATES) and bool((ended >= last).all())
    check.expect(
        holds=untold or bool((ended == last).all()),
        message=f"a replica ends with the run at {number(float(ended.max(initial=0.0)))} s; the last answer"
        f" or job is at {number(last)} s",
    )
    told = facts.outcome.summary.get("services")
    for place, service in enumerate(answering.services):
        own = (replicas.service == service.name).to_numpy()
        if not cut(replicas, own, service.drain).any() or not isinstance(told, list) or place >= len(told):
            continue
        row = told[place] if isinstance(told[place], dict) else {}
        anew, share = row.get("begun_anew"), row.get("busy_share")
        check.expect(
            holds=isinstance(anew, int) and anew >= 0,
            message=f"summary.json: {service.name}: begun_anew is {show_value(anew)}; expected a number >= 0",
        )
        serving = float(np.nansum((replicas.end - replicas.serves)[own]))
        least = busy(answers, asked.service == place) / serving if serving > 0 else 0.0
        fits = share is None and serving == 0.0
        if isinstance(share, int | float):
            fits = least * (1.0 - RELATIVE) <= share <= 1.0 + RELATIVE
        check.expect(
            holds=fits,
            message=f"summary.json: {service.name}: busy_share is {show_value(share)}; expected"
            f" {number(least)} to 1",
        )
