"""Cases as a text file, for tests without Python: what the engine is told, what the reference makes of it.

    python tests/cases/files.py [COUNT [FILE]]

A line is a name and its values; an empty line ends a case. Only cases with a reference model that runs,
under a policy of the engine's, without measured speeds.
"""

import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "rust" / "tests" / "drawn.txt"
COUNT = 120


def lines(seed: int) -> list[str] | None:
    """The case of a seed; None for one that does not go into a file."""
    from cases import decided, modelled
    from cases.met import met
    from cases.run import meet
    from reference.model import RowError

    drawn = meet(seed)
    case = drawn.seen.case
    refused = drawn.seen.outcome is None
    by_name = isinstance(case.policy, str) and case.policy not in decided.TOLD
    if refused or not by_name or "tables" in case.files or "ties" in case.options:
        return None
    if drawn.seen.faults:
        return None
    truth = modelled.truth(case)
    if isinstance(truth, RowError):
        return None
    setup = case.setup()
    # The engine never hears of a window.
    names = (name for name in met(drawn.seed, drawn.features) if name != "window")
    told = [f"case {seed} {' '.join(names)}"]
    columns = {
        **setup.jobs,
        **setup.servers,
        **{f"option.{name}": value for name, value in setup.options.items()},
    }
    for name, value in columns.items():
        told += [" ".join(line) for line in _told(name, value)]
    told += [
        " ".join(("start", *_words(truth.result.start))),
        " ".join(("finish", *_words(truth.result.finish))),
    ]
    return told


def _told(name: str, value: Any) -> Iterator[tuple[str, ...]]:
    """A column, or several that belong together, a line each."""
    if value is None:
        return
    if name == "types":
        yield "types.of", *_words(value["of"])
        for number, (speed, on, allowed) in enumerate(value["kinds"]):
            assert on is None
            yield f"types.{number}", *_words([speed, *(part for pair in allowed for part in pair)])
    elif name == "trials":
        yield "trials.0", *_words(value[0])
        for number, column in enumerate(value[1]):
            yield f"trials.{number + 1}", *_words(column)
    elif isinstance(value, tuple) and name != "network":
        for number, column in enumerate(value):
            yield f"{name}.{number}", *_words(column)
    elif isinstance(value, np.ndarray | list | tuple):
        yield name, *_words(value)
    else:
        yield name, *_words([value])


def _words(values: Any) -> list[str]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [str(value).lower() if isinstance(value, bool | float) else str(value) for value in listed]


def cases() -> Iterator[list[str]]:
    """Those of all seeds, in order."""
    return (told for told in map(lines, count()) if told is not None)


def main() -> None:
    number, file = (*sys.argv[1:], *(str(COUNT), str(FILE))[len(sys.argv) - 1 :])
    written = ["\n".join(told) + "\n" for told in islice(cases(), int(number))]
    Path(file).write_text("\n".join(written), encoding="utf-8")
    print(f"{len(written)} cases in {file}")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("", "shared")]
    main()
