"""Windows of time: one drawn beside all that a case has, and what it means in plain Python."""

import math
from random import Random

from cases.case import Case
from cases.draw import feature

Span = tuple[float, float]


@feature(0.4)
def window(rng: Random, case: Case) -> None:
    """Around a job's submission; its ends are often those of other jobs, or of the span of submissions."""
    inside = rng.choice(case.jobs)["submit_time"]
    for name, fits in (
        ("measure_from", lambda time: time <= inside),
        ("measure_to", lambda time: time > inside),
    ):
        value = rng.choice((_share, _share, _of_job, _of_job, _moment))(rng, case)
        if rng.random() < 0.75 and fits(_instant(case, value)):
            case.options[name] = value


def _share(rng: Random, _: Case) -> float:
    return rng.choice((0.0, 0.25, 0.5, 1.0, rng.random()))


def _of_job(rng: Random, case: Case) -> float | str:
    return _time(rng.choice(case.jobs)["submit_time"])


def _moment(rng: Random, case: Case) -> float | str:
    return _time(case.moment(rng))


def _time(seconds: float) -> float | str:
    """As a number only where it is none of a share."""
    return seconds if seconds > 1.0 else f"{seconds!r}s"


def _instant(case: Case, value: float | str) -> float:
    if isinstance(value, str) or value > 1.0:
        return float(str(value).removesuffix("s"))
    submits = [job["submit_time"] for job in case.jobs]
    share = min(submits) + value * (max(submits) - min(submits))
    return max(submits) if value == 1.0 else share


def of(case: Case) -> Span | None:
    """From when until before when jobs count; None where all do."""
    ends = [case.options.get(name) for name in ("measure_from", "measure_to")]
    if ends == [None, None]:
        return None
    since, until = (None if value is None else _instant(case, value) for value in ends)
    return -math.inf if since is None else since, math.inf if until is None else until


def counts(case: Case, submit: float) -> bool:
    """Whether figures of jobs are of one submitted then."""
    since, until = of(case) or (-math.inf, math.inf)
    return since <= submit < until


def within(case: Case, run: Span) -> Span:
    """The part of a run that figures of time are of."""
    since, until = of(case) or run
    return max(since, run[0]), min(until, run[1])
