"""The templates of all pages, in which whatever is put comes out as text, whatever a user called it.

A template's own markup is the only one. Two things are put in as they are, both of them made here and none
with a user's words in it as markup: files of the package, and pictures that the drawing library made.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# In a script's string, as in a text for people, an escape says the same.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def render(name: str, **told: Any) -> str:
    """The template of that name in the folder `page`, filled in; control characters show as `\\u001b`."""
    page = _environment().get_template(f"{name}.html.jinja").render(told)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", page)


def picture(svg: str) -> Markup:
    """A picture as an element of the page. `svg`: what vl_convert drew of one of our charts, nothing else."""
    # Safe: Vega wrote it, which escapes every text and attribute that comes from a chart's data.
    return Markup(svg)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ringbco", "reports/page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # jinja2's filter `tojson` writes < > & ' as \\u003c and so on: no text can end the script element.
    made.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "separators": (",", ":"),
        "allow_nan": False,
    }
    made.globals |= {"asset": _asset}
    return made


def _asset(name: str) -> Markup:
    """A style sheet or a script of the folder `page`."""
    # Safe: a file of the package, named by a template; nobody's input is in it.
    return Markup((files("ringbco.reports") / "page" / name).read_text(encoding="utf-8"))
