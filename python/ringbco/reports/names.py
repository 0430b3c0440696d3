"""Names where room is short: on two lines, or shortened in their middle; never cut at their end."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

_SIZE: Final = 13.5
"""Of the letters of a chart, pixels."""
_WIDTHS: Final = {
    **dict.fromkeys("iljI.,:;'|!/ ", 0.28),
    **dict.fromkeys("frt()[]-", 0.34),
    **dict.fromkeys("mMW@%", 0.92),
    **dict.fromkeys("wABCDEFGHKNOPQRSTUVXYZ&=+", 0.7),
}
"""Of letters, in sizes of the font; of others 0.56, of ideographs 1."""
_SHARES: Final = (0.5, 0.3, 0.7, 0.1, 0.9)
"""How much of the room is for a name's beginning: the first with which all names stay different."""
_DOTS: Final = "\N{HORIZONTAL ELLIPSIS}"


def width(text: str) -> float:
    """How wide a text is, pixels, about."""
    return _SIZE * sum(
        _WIDTHS.get(letter, 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.56) for letter in text
    )


def shortened(names: Sequence[str], room: float) -> dict[str, str]:
    """What stands for each name: the name, or its beginning and end where it is wider than `room`, pixels.

    Names that differ stay different: where no such text tells them apart, they are in full.
    """
    for share in _SHARES:
        texts = {name: _without_middle(name, room, share) for name in names}
        if len(set(texts.values())) == len(texts):
            return texts
    return {name: name for name in names}


def _without_middle(name: str, room: float, share: float) -> str:
    if width(name) <= room:
        return name
    left = room - width(_DOTS)
    begin, end = _as_wide(name, left * share), _as_wide(name[::-1], left * (1.0 - share))[::-1]
    return f"{begin.rstrip()}{_DOTS}{end.lstrip()}"


def _as_wide(text: str, room: float) -> str:
    """As many first letters as fit, at least one."""
    count = 1
    while count < len(text) and width(text[: count + 1]) <= room:
        count += 1
    return text[:count]


def on_lines(names: Sequence[str], room: float, *, wrap: bool) -> dict[str, str]:
    """The same of names that may have several lines; wrap: whether one too wide is put on two at a space."""
    texts = {name: _wrapped(name, room) if wrap else name for name in names}
    parts = list(dict.fromkeys(line for text in texts.values() for line in text.split("\n")))
    short = shortened(parts, room)
    made = {name: "\n".join(short[line] for line in text.split("\n")) for name, text in texts.items()}
    return made if len(set(made.values())) == len(made) else texts


def _wrapped(name: str, room: float) -> str:
    """The name on two lines, broken at the space that leaves them most alike."""
    if "\n" in name or width(name) <= room or " " not in name:
        return name
    spaces = [place for place, letter in enumerate(name) if letter == " "]
    at = min(spaces, key=lambda place: max(width(name[:place]), width(name[place + 1 :])))
    return f"{name[:at]}\n{name[at + 1 :]}"


def label_expression(texts: Mapping[str, str]) -> str | None:
    """The expression by which an axis or a legend writes its names; None where they stand as they are."""
    other = ((json.dumps(name), json.dumps(text)) for name, text in texts.items() if name != text)
    told = "".join(f"datum.label === {name} ? {text} : " for name, text in other)
    return f"{told}datum.label" if told else None
