"""A feature of random cases: protection from preemption (docs/operators.md)."""

from random import Random

from cases.case import Case
from cases.draw import feature


@feature(0.3)
def protection(rng: Random, case: Case) -> None:
    """From preemption, by age or by how often, on the grid often until something else happens."""
    if rng.random() < 0.8:
        pause = case.options.get("preempt_cost", 30.0)
        own = (
            case.span(rng, 1.0, 4.0),
            case.span(rng, 1.0, 12.0),
            pause,
            0.0,
            case.options.get("interval") or 0.0,
        )
        case.options["preempt_after"] = rng.choice(own)
    if "preempt_after" not in case.options or rng.random() < 0.4:
        case.options["max_preemptions"] = rng.choice((0, 1, 1, 2))
