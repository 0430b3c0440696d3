"""Cases as a text file, for tests without Python: what the engine is told, what the reference makes of it.

    python tests/cases/files.py [COUNT [FILE]]

A line is a name and its values; an empty line ends a case. The first holds the options of all cases that say
nothing else. Two fifths walk through every order, discipline, placement, variant, model and clock; a quarter
are decision logs, of any policy and of verbs drawn at random; in the rest everything meets, with a reference
model that runs, under a policy of the engine's, without measured speeds.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice, product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cases.case import Case
    from cases.modelled import ReferenceResult
    from ringbco.run.setup import Setup

FILE = Path(__file__).parents[2] / "rust" / "tests" / "drawn.txt"
COUNT = 600

ORDERS = ("fifo", "sjf", "smallest")
QUEUES = ("strict", "skip", "easy", "conservative")
VARIANTS = ("practical", "literal")
MODELS = ("fixed", "rar")
CLOCKS = ("continuous", "slot")
QUIET = ("late", "shuffled", "tiny", "sharing", "vcs", "placement", "aging", "ties")
"""Features that may meet any order, discipline and placement."""
UNTOLD = ("tiers", "nics", "intensity", "compact", "within_tier", "segments", "requests", "seats")
"""Features of which the file does not tell."""
ZEROS = ("iterations", "gradient_bytes", "compute_time")
"""Columns that are left out where they are all 0."""
SHOWN = {0: (291, ("fifo", "conservative", "consolidate", "literal", "rar", "slot"))}
"""Cases in the place of others, for a fault that they alone have shown: (seed, cell)."""
NONE = 2**32 - 1
NOTHING = {"num_gpus": 0, "cause": 0, "of_pass": 0, "time": -1.0, "verb": 255}
"""What a column of a log is left out for where all its rows have it; of the others NONE."""


class CaseLines(NamedTuple):
    """given: lines of the inputs. options: words by name. expected: lines of what comes of it."""

    given: list[str]
    options: dict[str, str]
    expected: list[str]


def walked(number: int) -> CaseLines | None:
    """The case of a place among all orders, disciplines, placements, variants, models and clocks."""
    from cases.draw import FEATURES, build
    from strategies import PLACEMENTS

    cells = list(product(ORDERS, QUEUES, PLACEMENTS, VARIANTS, MODELS, CLOCKS))
    # Neighbours differ in everything: the step has no divisor in common with their number.
    number, cell = SHOWN.get(number, (number, cells[number * 101 % len(cells)]))
    order, queue, placement, variant, model, clock = cell
    rng = Random(f"walk {number}")
    names = {name for name in QUIET if rng.random() < max(0.25, FEATURES[name].coin)}
    names |= {name for name, wanted in (("ring", model == "rar"), ("slot", clock == "slot")) if wanted}
    whole = placement != "random" and variant != "literal"
    names |= {"pods"} if whole and Random(f"walk {number} pods").random() < 0.5 else set()
    case = build(f"walk {number}", tuple(names))
    case.options |= {"order": order, "queue": queue, "placement": placement, "variant": variant}
    return case_lines(f"walk {number}", case)


def logged(number: int) -> CaseLines | None:
    """The log of a case, to be followed."""
    from cases.custom_policies import Restless
    from cases.draw import build, toss

    seed = f"log {number}"
    names = {*toss(seed)} - {"tables", "late", "window", *UNTOLD}
    # A log of verbs at random is one of two.
    names = names - {"own_policy"} | {"policy"} if number % 2 else names - {"policy"} | {"own_policy"}
    case = build(seed, tuple(names))
    if number % 2 == 0:
        case.options["policy"] = Restless
    return case_lines(seed, case, follow=True)


def everything(number: int) -> CaseLines | None:
    """The case of a seed."""
    from cases import decided
    from cases.draw import toss
    from cases.met import effective_features
    from cases.run import meet

    drawn = meet(number, features=tuple(name for name in toss(number) if name not in UNTOLD))
    case = drawn.seen.case
    if not isinstance(case.policy, str) or case.policy in decided.TOLD or drawn.seen.faults:
        return None
    # The engine never hears of a window.
    names = (name for name in effective_features(drawn.seed, drawn.features) if name != "window")
    return case_lines(f"{number} {' '.join(names)}", case)


def case_lines(title: str, case: Case, *, follow: bool = False) -> CaseLines | None:
    """A case and what its reference model gives; None for one in no file. follow: by its decision log."""
    from cases import modelled
    from cases.run import replayed
    from reference.model import RowError

    if "tables" in case.files or replayed(case).outcome is None:
        return None
    expected = modelled.reference_result(case)
    if isinstance(expected, RowError):
        return None
    setup = _followed(case) if follow else case.setup()
    types = setup.jobs.get("types")
    if types is not None and any(on is not None for _, on, _ in types["kinds"]):
        return None  # of which the file does not tell
    lines = [f"case {title}"]
    for name, value in {**setup.jobs, **setup.servers}.items():
        if name not in ZEROS or np.any(value):
            lines += [" ".join(line) for line in _values(name, value)]
    options = {name: " ".join(_words(value)) for name, value in setup.options.items() if value is not None}
    return CaseLines(
        lines, options, [" ".join((name, *_words(value))) for name, value in _expected(expected)]
    )


def _followed(case: Case) -> Setup:
    """The same by its log."""
    from frames import cluster_of
    from ringbco.run.setup import prepare

    with tempfile.TemporaryDirectory() as folder:
        case.replay(decisions=True).write(Path(folder, "run"))
        return prepare(
            case.frame(),
            cluster_of(case.toml()),
            recorded_cluster=None,
            policy=f"log:{folder}/run/decisions.parquet",
            workload=None,
            options={},
        )


def _expected(expected: ReferenceResult) -> Iterator[tuple[str, Any]]:
    """What the reference makes of it."""
    true = expected.result
    yield from {
        "start": true.start,
        "finish": true.finish,
        "kept": true.kept,
        "max_contention": true.max_contention,
        "preemptions": true.preemptions,
        "failures": true.failures,
    }.items()
    if expected.tells_waits:
        yield "wait_gpus", true.wait_gpus
        yield "wait_fragmented", true.wait_fragmented
    stays = [(row, *each) for row, rows in enumerate(true.allocations) for each in rows]
    if not expected.shares:
        yield from ((f"stays.{at}", [stay[at] for stay in stays]) for at in range(5))


def _values(name: str, value: Any) -> Iterator[tuple[str, ...]]:
    """A column, or several that belong together, a line each."""
    if value is None:
        return
    if name == "types":
        yield "types.of", *_words(value["of"])
        # Measured speeds and the policy `recorded` alone read the type recorded on; neither is here.
        for number, (speed, _, allowed) in enumerate(value["kinds"]):
            yield f"types.{number}", *_words([speed, *(part for pair in allowed for part in pair)])
    elif name == "trials":
        yield "trials.0", *_words(value[0])
        for number, column in enumerate(value[1]):
            yield f"trials.{number + 1}", *_words(column)
    elif name == "log":
        yield "log.runs_through", *_words([value["runs_through"]])
        rows = {key: column for key, column in value.items() if key != "runs_through"}
        for key, column in rows.items():
            if np.any(column != NOTHING.get(key, NONE)):
                yield f"log.{key}", *("-" if word == str(NONE) else word for word in _words(column))
    elif name == "forms":
        yield from _values("pods", (value["of"], [form[0] for form in value["list"]]))
    elif name in ("quotas", "fair"):
        for number, part in enumerate(value):
            yield from _values(f"{name}.{number}", part)
    elif isinstance(value, tuple) and name != "network":
        for number, column in enumerate(value):
            yield f"{name}.{number}", *_words(column)
    else:
        yield name, *_words(value)


def _words(values: Any) -> list[str]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    listed = listed if isinstance(listed, list | tuple) else [listed]
    return [str(value).lower() if isinstance(value, bool | float) else str(value) for value in listed]


KINDS = {walked: 0.4, logged: 0.25, everything: 0.35}
"""What is drawn, and which part of a file it is."""


def cases(make: Callable[[int], CaseLines | None]) -> Iterator[CaseLines]:
    """All of a kind."""
    return filter(None, map(make, count()))


def blocks(told: Sequence[CaseLines]) -> Iterator[str]:
    """The file's text in parts: first the options as most cases have them, then a case each."""
    names = [name for name in told[0].options if all(name in each.options for each in told)]
    usual = {name: Counter(each.options[name] for each in told).most_common(1)[0][0] for name in names}
    yield "\n".join(_options(usual))
    for each in told:
        own = {name: words for name, words in each.options.items() if words != usual.get(name)}
        yield "\n".join((*each.given, *_options(own), *each.expected))


def _options(words: Mapping[str, str]) -> list[str]:
    return [f"option.{name} {value}" for name, value in words.items()]


def main() -> None:
    number, file = (*sys.argv[1:], *(str(COUNT), str(FILE))[len(sys.argv) - 1 :])
    value = [each for make, part in KINDS.items() for each in islice(cases(make), round(part * int(number)))]
    Path(file).write_text("\n".join(f"{block}\n" for block in blocks(value)), encoding="utf-8")
    print(f"{len(value)} cases in {file}")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("", "shared")]
    main()
