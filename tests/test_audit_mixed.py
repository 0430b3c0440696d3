"""What the engine does passes where everything is mixed: the random cases of the comparison with the oracle.

Priorities, eviction, quotas, services and outages, with GPU types, measured speeds and shares of a GPU.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ringbco
from core_run import AUDITS, LONG
from priority_cases import Problem, build_problem, frame_of
from ringbco.errors import InputError
from strategies import COMBINATIONS
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES
from test_priorities_equality import replayed

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

COUNT = 2 * AUDITS if LONG else AUDITS // 2
"""Random cases of each test."""


def cases(policy: str | None, kind: str) -> Iterator[Problem]:
    """policy: None for a queue. Some have all rules, some none."""
    for number in range(COUNT):
        rnd = random.Random(f"audit {kind} {policy} {number}")
        bases = COMBINATIONS if policy is None else PREEMPT_COMBINATIONS
        base = rnd.choice([base for base in bases if kind != "tables" or base.model == "rar"])
        if rnd.random() < 0.4:  # where most gangs find room, more of them are evicted
            base = replace(base, placement="consolidate")
        rules = {name: rnd.random() < 0.6 for name in ("evict", "services")} if kind != "shares" else {}
        if policy is None and kind != "shares":
            rules["quotas"] = rnd.random() < 0.6
        yield build_problem(rnd, base, policy, kind=kind, **rules)


@pytest.mark.parametrize("kind", ["plain", "types", "tables", "shares"])
@pytest.mark.parametrize("policy", [None, *POLICIES])
def test_mixed_replays_pass(policy: str | None, kind: str) -> None:
    audited = 0
    for number, problem in enumerate(cases(policy, kind)):
        try:
            outcome = replayed(problem)
        except InputError:  # no job fits, an iteration does not fit in a slot, or a run never ends
            continue
        if outcome.jobs.height:
            audited += 1
            assert ringbco.audit(outcome, frame_of(problem)) == [], (number, problem)
    assert audited >= 0.4 * COUNT
