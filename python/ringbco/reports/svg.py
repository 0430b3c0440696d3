"""A chart as a drawing for a page: what Vega makes of it, without what a page has no need of.

Vega's own text is some ten times as long: it describes every mark to assistive technology, which hears the
figure's caption instead, and gives each of them attributes that all have in common.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

from ringbco.reports.drawing import draw

_NAMESPACE: Final = "{http://www.w3.org/2000/svg}"
_MOST_TITLES: Final = 240
"""Marks of one kind that each say what they are; of more, none does."""
_SHARED: Final = (
    *("fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray"),
    *("opacity", "text-anchor"),
)
_PLACES: Final = ("d", "transform", "x", "y", "dy", "x1", "x2", "y1", "y2", "width", "height")
_KEPT: Final = {*_SHARED, *_PLACES, "font-weight", "font-size"}
FONT_SIZE: Final = "13.5px"
"""What charts for pages are laid out with: a tenth larger than drawn, for readers whose font is wider."""
_DEFAULTS: Final = {
    *(("opacity", "1"), ("x2", "0"), ("y2", "0"), ("transform", "translate(0,0)")),
    *(("font-size", FONT_SIZE), ("font-weight", "normal")),
}
_NUMBER: Final = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|-?\d+e-?\d+")
_POINT: Final = re.compile(r"([ML])(-?[\d.]+),(-?[\d.]+)")


def drawings(spec: Mapping[str, Any], *looks: tuple[Mapping[str, str], Mapping[str, str]]) -> list[str]:
    """The chart as elements `svg`, one a look: what stands for each of its colours, and more attributes."""
    whole = ET.fromstring(draw("svg", json.dumps(spec)))
    texts = []
    for colours, more in looks:
        made = ET.Element("svg", {"viewBox": whole.attrib["viewBox"], "fill": "none", **more})
        made.extend(part for child in whole for part in _parts(child, colours, 0))
        texts.append(ET.tostring(made, encoding="unicode").replace(" />", "/>"))
    return texts


def _parts(element: ET.Element, colours: Mapping[str, str], marks: int) -> Iterator[ET.Element]:
    """What is kept of an element. marks: how many there are of its kind; 0 where it is no mark of data."""
    tag = element.tag.removeprefix(_NAMESPACE)
    kind = element.get("class", "")
    if kind == "foreground" or (tag == "path" and not {"fill", "stroke"} & set(element.attrib)):
        return
    if tag == "path" and element.get("opacity") == "0":
        return
    many = len(element) if "role-mark" in kind and "mark-group" not in kind else marks
    made = ET.Element(tag, _attributes(element, colours))
    if tag != "g":
        made.text = element.text
        if 0 < marks <= _MOST_TITLES and (told := element.get("aria-label")):
            ET.SubElement(made, "title").text = told
        made.extend(_part for child in element for _part in _parts(child, colours, 0))
        yield made
        return
    inner = list(_joined(_part for child in element for _part in _parts(child, colours, many)))
    _hoist(made, inner)
    if not inner:
        return
    if made.attrib:
        made.extend(inner)
        yield made
    else:
        yield from inner


def _attributes(element: ET.Element, colours: Mapping[str, str]) -> dict[str, str]:
    kept = {}
    for name, value in element.attrib.items():
        if name not in _KEPT or (name, value) in _DEFAULTS:
            continue
        if name in ("fill", "stroke"):
            kept[name] = colours.get(value, value)
        elif name == "d":
            kept[name] = _shorter(_rounded(value))
        else:
            kept[name] = _rounded(value, 2 if "opacity" in name else 1)
    return {name: value for name, value in kept.items() if (name, value) not in _DEFAULTS}


def _rounded(text: str, digits: int = 1) -> str:
    """Numbers with one decimal, a tenth of a pixel."""
    return _NUMBER.sub(lambda found: f"{round(float(found[0]), digits) + 0.0:g}", text)


def _shorter(path: str) -> str:
    """A path whose steps along one axis tell only that one, and whose points are told once."""
    at: tuple[str, str] = ("", "")

    def step(found: re.Match[str]) -> str:
        nonlocal at
        before, at = at, (found[2], found[3])
        if found[1] == "M":
            return found[0]
        if before == at:
            return ""
        if before[1] == at[1]:
            return f"H{at[0]}"
        return f"V{at[1]}" if before[0] == at[0] else found[0]

    return _POINT.sub(step, path)


def _joined(elements: Iterator[ET.Element]) -> Iterator[ET.Element]:
    """Neighbours that differ in their path alone, as one."""
    last: ET.Element | None = None
    for element in elements:
        if last is not None and _alike(last, element):
            last.set("d", last.attrib["d"] + element.attrib["d"])
            continue
        if last is not None:
            yield last
        last = element
    if last is not None:
        yield last


def _alike(one: ET.Element, other: ET.Element) -> bool:
    paths = one.tag == other.tag == "path" and not len(one) and not len(other)
    return paths and {**one.attrib, "d": ""} == {**other.attrib, "d": ""} and "transform" not in one.attrib


def _hoist(group: ET.Element, inner: list[ET.Element]) -> None:
    """Puts what all of a group's elements have in common into the group."""
    if len(inner) < 2:
        return
    for name in _SHARED:
        values = {element.get(name) for element in inner}
        if len(values) == 1 and (value := values.pop()) is not None and name not in group.attrib:
            # Opacities multiply; a group's own is that of a layer, over which nothing may lie.
            if name == "opacity":
                continue
            group.set(name, value)
            for element in inner:
                del element.attrib[name]
