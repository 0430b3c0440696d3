"""The reference model of requests: cases worked by hand, and the file of random cases."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest

from cases import serving
from conftest import SHARED
from reference.replicas import Answer, Batch, Request, Tokens
from reference.scaling import Target
from reference.serving import Result, Scheduled, Service, UnansweredError, World, percentile

HAND = SHARED / "cases" / "requests.json"
KEYS = ("step", "prefill", "decode", "max_running", "kv_tokens", "context", "max_step_tokens")
STEP = Tokens(step=1.0, prefill=0.0, decode=0.0, max_running=8, kv_tokens=100)


def result(case: dict[str, Any]) -> Result:
    keys = case["service"]
    kind: Batch | Tokens
    if keys["kind"] == "batch":
        kind = Batch([(size, seconds) for size, seconds in keys["seconds"]], keys.get("max_wait", 0.0))
    else:
        kind = Tokens(**{key: keys[key] for key in KEYS if key in keys})
    columns = ("input_tokens", "output_tokens", "cached_tokens")
    requests = [Request(0, r["arrival"], *(r.get(column, 0) for column in columns)) for r in case["requests"]]
    if keys["scale"] == "target":
        scale = Target(keys["target"], keys["min"], keys["max"], keys["every"], down_after=keys["down_after"])
        service = Service(kind, keys["startup"], keys["drain"], scale)
        return World([service], requests, speeds=[1.0] * 8).run()
    schedule, drain = [], 60.0
    for server, told in enumerate(case["replicas"]):
        drains, end = told["drains_from"], told["end_time"]
        if drains is not None:
            drain = end - drains
        fails = {} if drains is not None or end is None else {"fails": end}
        drained = {} if drains is None else {"drains": drains}
        schedule.append(Scheduled(0, told["serves_from"], server, **fails, **drained))
    return World([Service(kind, drain=drain)], requests, schedule).run()


@pytest.mark.skipif(not HAND.exists(), reason="the cases worked by hand are not here")
@pytest.mark.parametrize("place", range(8))
def test_cases_worked_by_hand(place: int) -> None:
    case = json.loads(HAND.read_text(encoding="utf-8"))["cases"][place]
    found = result(case)
    assert found.answers == [Answer(**row) for row in case["expect"]]
    assert [[time, wanted] for time, _, wanted in found.wanted] == case.get("wanted", [])
    summary = case.get("summary", {})
    if "begun_anew" in summary:
        assert found.begun_anew == [summary["begun_anew"]]
    if "replicas" in summary:
        assert [[r.start, r.drains_from, r.end] for r in found.replicas] == summary["replicas"]


def test_a_sample_has_the_state_after_its_instant() -> None:
    # Steps end at 1, 2, ...: row 0 has its tokens at 2, row 1 joins at 1 and is done there too.
    requests = [Request(0, 0.0, 1, 2), Request(0, 0.5, 1, 1), Request(0, 1.5, 1, 1)]
    world = World([Service(STEP)], requests, [Scheduled(0, 0.0)], samples=[0.0, 1.5, 2.0, 9.0])
    samples = world.run().samples
    assert [(s.arrivals, s.queued, s.running, s.serving) for s in samples] == [
        (1, 0, 1, 1),
        (2, 1, 2, 1),
        (0, 0, 1, 1),
    ]
    assert [s.p50_latency for s in samples] == [None, None, 1.75]


def test_percentiles_lie_between_two_values() -> None:
    assert percentile([], 0.5) is None
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([1.0, 2.0, 4.0], 0.75) == 3.0


def test_requests_that_nobody_will_answer() -> None:
    service = Service(STEP, scale=Target(1.0, 1, 1, every=10.0, down_after=20.0))
    with pytest.raises(UnansweredError):
        World([service], [Request(0, 0.0, 1, 1)], speeds=[]).run()


def test_the_file_of_random_cases_is_what_the_model_says() -> None:
    written = serving.FILE.read_text(encoding="utf-8")
    assert written == "\n\n".join(islice(serving.cases(), serving.COUNT)) + "\n"
