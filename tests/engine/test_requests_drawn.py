"""Random cases of requests beside jobs: every answer, replica and tick as the reference model says.

`test_cases` draws them beside everything; here each case has requests, and few other features.
`RINGBCO_CASES` sets how many.
"""

from random import Random

import pytest

from cases.draw import FEATURES
from cases.run import meet
from core_run import PAIRS

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

CHUNK = 15
BESIDE = (
    *("policy", "queue", "placement", "outages", "drains", "maintenance", "evict", "preemptible"),
    *("priorities", "quotas", "types", "gpu_type", "elastic", "searches", "after", "checkpoints", "costs"),
)


@pytest.mark.parametrize("chunk", range(-(-PAIRS // CHUNK)))
def test_requests_are_answered_as_the_reference_model_says(chunk: int) -> None:
    answered = 0
    for number in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        seed = f"requests {number}"
        rng = Random(seed)
        drawn = {"requests", *rng.sample(BESIDE, rng.choice((0, 1, 3, 6)))}
        met = meet(seed, features=tuple(name for name in FEATURES if name in drawn))
        assert met.seen.faults == [], f"{seed}, {', '.join(met.features)}\n\n{met.seen.case.script()}"
        answered += "requests" in met.features
    # Others can never be done, or answered: a replica holds the GPUs of a job for good.
    assert answered > CHUNK // 5
