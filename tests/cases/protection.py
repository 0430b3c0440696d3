"""Features of random cases: protection from preemption, and what one costs (docs/operators.md)."""

from random import Random

from cases.case import Case
from cases.draw import column, feature
from cases.of_policies import QUEUES


@feature(0.3)
def protection(rng: Random, case: Case) -> None:
    """From preemption, by age or by how often, on the grid often until something else happens."""
    if rng.random() < 0.8:
        pause = case.options.get("preempt_cost", 30.0)
        own = (
            case.span(rng, 1.0, 4.0),
            case.span(rng, 1.0, 12.0),
            pause,
            case.options.get("interval") or 0.0,
        )
        case.options["preempt_after"] = rng.choice(own)
    if "preempt_after" not in case.options or rng.random() < 0.4:
        case.options["max_preemptions"] = rng.choice((0, 1, 1, 2))


@feature(0.35)
def preempt_loses(rng: Random, case: Case) -> None:
    """Checkpoints far apart, so that something is lost; those of some jobs are closer."""
    if case.policy in ("fifo", *QUEUES):
        return
    case.options["preempt_loses"] = True
    if rng.random() < 0.7:
        case.options.setdefault("checkpoint_interval", case.span(rng, 0.5, 4.0))


@feature(0.3)
def preempt_cost(rng: Random, case: Case) -> None:
    """Of some jobs their own."""
    column(case, "preempt_cost", [rng.choice((None, 0.0, case.span(rng, 0.0, 3.0))) for _ in case.jobs])


def _guesses(rng: Random, case: Case) -> list[float | None]:
    """Run times that are right to a factor, or of nobody, or missing, or none."""
    factors = rng.choice(((1.0,), (0.5, 1.0, 2.0), (0.01, 1.0, 9.0)))
    return [
        rng.choice((*(job["duration"] * f for f in (*factors, *factors)), None, 0.0)) for job in case.jobs
    ]


@feature(0.3)
def predict_column(rng: Random, case: Case) -> None:
    column(case, "guess", list(_guesses(rng, case)))
    case.options["predict"] = "column:guess"


@feature(0.3)
def estimate_column(rng: Random, case: Case) -> None:
    column(case, "expected", list(_guesses(rng, case)))
    case.options["estimate"] = "column:expected"
