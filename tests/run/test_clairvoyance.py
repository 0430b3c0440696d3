"""Which runs are called clairvoyant: just those that may decide otherwise under other run times."""

from random import Random
from typing import Any

import pytest

from cases.case import Case, plain
from cases.custom_policies import Keyed, LeastLeft
from cases.knowing import difference
from cases.of_claims import maintenance
from ringbco.run.clairvoyance import foreknowledge, of_policy
from ringbco.run.registry import CLAIRVOYANT, PRESETS

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

TRIES = 80
FOREKNOWING: dict[str, dict[str, Any]] = {
    **{f"policy {name}": {"policy": name} for name in CLAIRVOYANT["policy"]},
    **{f"placement {name}": {"placement": name} for name in CLAIRVOYANT["placement"]},
    **{f"queue {name}": {"queue": name} for name in CLAIRVOYANT["queue"]},
    # Where gangs are small, or in reading it practically, they choose among the GPUs of a server alone.
    "placement fa-ffp": {"placement": "fa-ffp", "variant": "literal"},
    "placement sjf-bco": {"placement": "sjf-bco", "kappa": 1},
    "order sjf": {"order": "sjf"},
    "order column:duration": {"order": "column:duration"},
    "maintenance": {"queue": "skip", "maintenance": True},
    "predict exact": {"order": "qssf", "predict": "exact"},
    "admission": {"policy": "edf", "admission": True},
    "policy cases.custom_policies:LeastLeft": {"policy": LeastLeft},
}
"""By what is said: options of a run of which just that is said."""
UNKNOWING: tuple[dict[str, Any], ...] = (
    {"policy": "tiresias"},
    {"policy": "tiresias", "maintenance": True},
    {"policy": "gittins"},
    {"policy": "repack"},
    {"policy": Keyed},
    {"predict": "exact"},
    *({"queue": queue, "estimate": "limit"} for queue in ("easy", "conservative")),
    *(
        {"queue": queue, "estimate": "limit", "maintenance": True}
        for queue in ("strict", "easy", "conservative")
    ),
    {"policy": Keyed, "queue": "easy", "estimate": "limit", "maintenance": True},
)


def case_of(seed: int, options: dict[str, Any]) -> Case:
    """Some jobs with deadlines, half of them with limits; servers that fail, or are to be maintained."""
    rng = Random(f"clairvoyance {seed}")
    case = plain(rng)
    for job in case.jobs:
        job["deadline"] = job["submit_time"] + case.span(rng, 3.0, 12.0)
        job["time_limit"] = case.span(rng, 1.0, 9.0) if rng.random() < 0.5 else None
        job |= {"min_gpus": 1, "max_gpus": case.room}
    case.options |= options
    case.options.setdefault("policy", "fifo")
    if case.options.pop("maintenance", False):
        maintenance(rng, case)
    else:
        down = case.moment(rng)
        case.files["outages"] = [
            {"server": 0, "down_at": down, "up_at": down + case.span(rng, 1.0, 6.0), "cause": None}
        ]
    return case


@pytest.mark.parametrize("said", FOREKNOWING)
def test_what_is_called_clairvoyant_decides_by_run_times(said: str) -> None:
    for seed in range(TRIES):
        case = case_of(seed, FOREKNOWING[said])
        assert foreknowledge(case.replay().run) == [said]
        if difference(case, 0.5) is not None:
            return
    pytest.fail(f"no decision of {TRIES} runs depends on run times")


@pytest.mark.parametrize("options", UNKNOWING, ids=repr)
def test_what_is_not_does_not(options: dict[str, Any]) -> None:
    for seed in range(12):
        case = case_of(seed, options)
        assert foreknowledge(case.replay().run) == []
        for share in (0.0, 0.5):
            assert difference(case, share) is None, case.script()


def test_parts_are_told_together() -> None:
    options = {"order": "sjf", "queue": "easy", "placement": "lbsgf", "maintenance": True}
    said = ["order sjf", "placement lbsgf", "queue easy", "maintenance"]
    assert foreknowledge(case_of(1, options).replay().run) == said
    assert foreknowledge(case_of(1, {**options, "estimate": "limit"}).replay().run) == said[:2]


def test_a_policy_says_what_it_reads() -> None:
    told = {name: of_policy(policy) for name, policy in PRESETS.items()}
    for name, policy in PRESETS.items():
        own = any(getattr(policy, part) in CLAIRVOYANT[part] for part in ("order", "placement"))
        assert told[name][0] == (own or "clairvoyant" in policy.is_), name
    assert {name: more for name, (_, more) in told.items() if more} == {
        "qssf": ["with --predict exact"],
        "repack": ["with --predict exact"],
        "edf": ["with --admission"],
    }
