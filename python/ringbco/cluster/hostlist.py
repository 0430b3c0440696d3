"""Names of servers: hostlists, the texts in which Slurm writes many of them, and what texts in tables name.

expand("gpu[01-03,07],x1")                     # gpu01, gpu02, gpu03, gpu07, x1
compact(["gpu01", "gpu02", "gpu03", "gpu07"])  # gpu[01-03,07]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from ringbco.errors import nearest
from ringbco.units import index_ranges

MOST_HOSTS: Final = 1_000_000
"""The most names of a hostlist."""
WANTED: Final = "a name or a hostlist such as gpu[01-04,07]"
_NO_NAME: Final = re.compile(r"[\s,\[\]]")
_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)")
_INDEXES: Final = re.compile(r" *[0-9]+ *(- *[0-9]+ *)?")
_SEARCHED: Final = 20_000
"""Among so many names the one that was meant is looked for."""
_SERVER: Final = re.compile(r"\bserver ([0-9]+)\b")


def expand(text: str) -> list[str]:
    """The names that a hostlist stands for. Raises ValueError if it never ends, and for a bad range."""
    names: list[str] = []
    for part in _parts(text):
        made = [""]
        for at, piece in enumerate(re.split(r"\[([^\]]*)\]", part)):
            choices = [piece] if at % 2 == 0 else list(_numbers(piece))
            if len(names) + len(made) * len(choices) > MOST_HOSTS:
                raise ValueError(f"{text}: expected {WANTED}")
            made = [before + after for before in made for after in choices]
        names += made
    return names


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas outside brackets."""
    depth, begin = 0, 0
    for at, mark in enumerate(text):
        depth += (mark == "[") - (mark == "]")
        if not 0 <= depth <= 1:
            raise ValueError(f"{text}: expected {WANTED}")
        if mark == "," and not depth:
            yield text[begin:at].strip()
            begin = at + 1
    if depth:
        raise ValueError(f"{text}: expected {WANTED}")
    yield text[begin:].strip()


def _numbers(ranges: str) -> Iterator[str]:
    for one in ranges.split(","):
        first, dash, last = one.strip().partition("-")
        if not dash:
            yield first
            continue
        if not (first.isdecimal() and last.isdecimal()) or not 0 <= int(last) - int(first) < MOST_HOSTS:
            raise ValueError(f"[{ranges}]: expected {WANTED}")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def compact(names: Sequence[str]) -> str:
    """A hostlist of names in their order; of names that no hostlist changes, `expand` gives them back."""
    parts: list[str] = []
    around: tuple[str, str] | None = None
    spans: list[list[str]] = []

    def close() -> None:
        if around is None:
            return
        ranges = ",".join(first if first == last else f"{first}-{last}" for first, last in spans)
        alone = len(spans) == 1 and spans[0][0] == spans[0][1]
        parts.append(f"{around[0]}{ranges if alone else f'[{ranges}]'}{around[1]}")

    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            close()
            around = None
            parts.append(name)
            continue
        before, number, after = match.groups()
        if (before, after) != around:
            close()
            around, spans = (before, after), [[number, number]]
        elif number == str(int(spans[-1][1]) + 1).zfill(len(spans[-1][0])):
            spans[-1][1] = number
        else:
            spans.append([number, number])
    close()
    return ",".join(parts)


def fault(names: Iterable[str], seen: set[str]) -> str | None:
    """What was expected of the first name that is none or that is there twice; None if all are good.

    seen: the names before, to which these are added.
    """
    for name in names:
        if not name or not name.isprintable() or _NO_NAME.search(name):
            return f"names that are not empty, without blanks, commas and brackets; {name!r} is none"
        if name in seen:
            return f"another name for each server of the cluster; {name} is there twice"
        seen.add(name)
    return None


def names_of(groups: Iterable[Mapping[str, Any]]) -> list[str | None]:
    """The name of each server, None for one without. groups: [[servers]], as run.toml has them."""
    lists = (expand(group["name"]) if "name" in group else [None] * group["count"] for group in groups)
    return [*chain.from_iterable(lists)]


def with_labels(text: str, called: Sequence[str]) -> str:
    """A text of the engine or of a check, which name servers by index, with what each is called."""

    def name(match: re.Match[str]) -> str:
        index = int(match[1])
        return f"server {called[index]}" if index < len(called) else match[0]

    return _SERVER.sub(name, text)


def server_ranges(text: str, numbers: Mapping[str, int]) -> list[range]:
    """The servers that a text names by index, range of indexes, name or hostlist: "0-3,7" or "gpu[01-04],x7".

    numbers: the index of each name; a name that looks like an index is a name. Raises ValueError, with the
    part at fault and what was expected, for anything else.
    """
    if not numbers:
        return index_ranges(text)
    found: list[range] = []
    for part in _parts(text):
        if part not in numbers and _INDEXES.fullmatch(part):
            found += index_ranges(part)
            continue
        for name in [part] if part in numbers else expand(part):
            if name not in numbers:
                near = nearest_server(name, numbers)
                hint = f"; {near}" if near else ""
                raise ValueError(f"{name}: expected a name or an index of the cluster's servers{hint}")
            found.append(range(numbers[name], numbers[name] + 1))
    return found


def nearest_server(text: str, numbers: Mapping[str, int]) -> str | None:
    """A hint at the name that was probably meant in a text that is none; None where nothing is near."""
    try:
        strange = next((name for name in expand(text) if name not in numbers), text)
    except ValueError:
        return None
    near = nearest(strange, islice(numbers, _SEARCHED))
    return f"did you mean {near}?" if near else None
