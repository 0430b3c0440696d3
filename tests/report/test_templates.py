"""What users and traces name comes out as text on every page, and templates alone make markup."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import altair as alt
import polars as pl
import pytest
import vl_convert
from jinja2 import UndefinedError

import ringbco as rb
from conftest import GRID
from ringbco.io.marks import is_page
from ringbco.reports.facts import facts
from ringbco.reports.figures import chapters
from ringbco.reports.html import page
from ringbco.reports.names import width
from ringbco.reports.notebook import comparison_html, outcome_html
from ringbco.reports.sheet_page import inspect_page
from ringbco.reports.sweep_page import sweep_page
from ringbco.reports.sweep_points import SweepRuns, read_sweep
from ringbco.reports.templates import render
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import from_frame

PACKAGE: Final = Path(rb.__file__).parent
TEMPLATES: Final = sorted((PACKAGE / "reports" / "page").glob("*.jinja"))
EVIL: Final = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{7*7}}{% raw %}",
    "</title></style><!--<svg onload=alert(1)>",
    "&lt;b&gt;&amp;",
)
# All at once; what follows the last slash has a quote of each kind and a tag.
ALL: Final = "".join(EVIL[number] for number in (5, 3, 4, 0, 2, 1))
# The one module that makes markup, and what others do with some that is no page's.
MAKER: Final = "reports/templates.py"
OTHERS: Final = {
    "dev/cli_docs.py": ["&lt;"],  # in the Markdown of docs/cli/
    "sources/opening.py": ["<html"],  # tells the page of a failed download from a trace
}


class Parsed(HTMLParser):
    """The elements of a page with their attributes' names, its texts, attributes' values and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []
        self.values: list[str] = []
        self.scripts: list[str] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value for _, value in attrs if value]

    def handle_data(self, data: str) -> None:
        (self.scripts if self.elements and self.cdata_elem else self.texts).append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def shows(self, name: str) -> bool:
        """Whether a text, or a string of the data of a script, holds the name as it is."""
        written = json.dumps(name, ensure_ascii=False)[1:-1]
        for letter in "<>&'":
            written = written.replace(letter, f"\\u{ord(letter):04x}")
        return any(name in text for text in self.texts) or any(written in text for text in self.scripts)


pytestmark = pytest.mark.usefixtures("unvalidated")


def plain(name: str) -> str:
    """A harmless name, as wide as that one."""

    def alike(letter: str) -> str:
        return min("irnOm", key=lambda other: abs(width(other) - width(letter)))

    return "".join(letter if letter == " " or letter.isalnum() else alike(letter) for letter in name)


def outcome(name: str) -> rb.Outcome:
    """A result in which everything that a user can name is called so."""
    jobs = pl.DataFrame(
        {
            "job_id": [f"{name}{number}" for number in range(6)],
            "submit_time": [float(number) for number in range(6)],
            "num_gpus": [2, 4, 8, 1, 8, 16],
            "duration": [50.0, 100.0, 30.0, 10.0, 200.0, 60.0],
            "user": [name, "u", name, "v", "u", name],
            "vc": [name, "w", "w", name, "w", name],
        }
    )
    made = rb.replay(jobs, "2x8", policy="fifo")
    run: dict[str, Any] = copy.deepcopy(made.run)
    run["trace"]["path"] = run["cluster"]["name"] = run["options"]["policy"] = name
    run["ringbco"]["version"] = name
    run["options"][name] = name
    run["warnings"] = [name]
    return dataclasses.replace(made, run=run, summary={**made.summary, "policy": name, "jobs_refused": 3})


@cache
def results_page(name: str, number: int) -> str:
    one = outcome(name)
    results = {name: one} | {f"{name} {n}": dataclasses.replace(one) for n in range(1, number)}
    return page(results, chapters(results), title=name)


def compared(name: str) -> str:
    one = outcome(name)
    return comparison_html(rb.Comparison({name: one, f"{name} 2": one}))


@cache
def inspected(name: str) -> str:
    frame = pl.DataFrame(
        {
            "job_id": [f"{name}{number}" for number in range(4)],
            "submit_time": [0.0, 10.0, 90_000.0, 90_001.0],
            "num_gpus": pl.Series([1, 2, 8, 64], dtype=pl.UInt32),
            "duration": [1.0, 100.0, 50.0, 1_000.0],
            "user": [name, "u", "v", name],
            "vc": [name, "w", "w", name],
            "status": ["Pass", name, "Failed", "Pass"],
        }
    )
    return inspect_page(frame, inspect_jobs(from_frame(frame)), title=name, said=[name])


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> SweepRuns:
    folder = tmp_path_factory.mktemp("swept")
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 1.0], "num_gpus": [8, 16], "duration": [50.0, 60.0]}
    )
    jobs.write_csv(folder / "small.csv")
    spec = tomllib.loads(GRID)
    spec["base"]["trace"] = str(folder / "small.csv")
    rb.sweep(spec, folder / "s")
    return read_sweep(folder / "s")


def swept_page(swept: SweepRuns, name: str) -> str:
    """The page of a sweep with a policy and a trace of that name, and a run that failed with it."""
    number = pl.int_range(pl.len())
    frame = swept.frame.with_columns(
        policy=pl.when(pl.col("policy") == "sjf").then(pl.lit(name)).otherwise("policy"),
        trace=pl.when(number % 2 == 0).then(pl.lit(name)).otherwise("trace"),
        error=pl.when(number == 0).then(pl.lit(name)).otherwise("error"),
    )
    return sweep_page(SweepRuns(frame, ("policy", "trace", "seed"), {"base": {name: name}}), title=name)[0]


def check(make: Callable[[str], str], name: str) -> None:
    """The page made with this name has the elements and attributes that it has with a harmless one."""
    text = make(name)
    evil, harmless = Parsed(text), Parsed(make(plain(name)))
    # How a drawing's parts are moved depends on how wide a name is.
    assert [one for one in evil.elements if one[0] != "g"] == [
        one for one in harmless.elements if one[0] != "g"
    ]
    assert len(evil.scripts) == len(harmless.scripts)
    assert evil.comments == harmless.comments
    assert evil.shows(name)
    assert not any(attribute.startswith("on") for _, attributes in evil.elements for attribute in attributes)
    if "<" in name:
        assert name not in text


PAGES = [
    (1, ALL),
    (2, ALL),
    *(pytest.param(*some, marks=pytest.mark.long) for some in (*((1, name) for name in EVIL), (5, ALL))),
]


@pytest.mark.parametrize(("number", "name"), PAGES)
def test_a_page_of_results(name: str, number: int) -> None:
    check(lambda name: results_page(name, number), name)


@pytest.mark.parametrize("name", EVIL)
def test_a_page_of_a_sweep(name: str, swept: SweepRuns) -> None:
    check(lambda name: swept_page(swept, name), name)


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("make", [inspected, compared, lambda name: outcome_html(outcome(name))])
def test_a_page_of_a_job_table_and_what_notebooks_show(name: str, make: Callable[[str], str]) -> None:
    check(make, name)


def test_every_place_for_a_name_is_tried() -> None:
    """Lest the names above never reach a page's tables."""
    name = EVIL[1]  # of a trace's path the page tells what follows the last slash
    told = {fact.title: fact.values[0] for fact in facts({"a": outcome(name)})}
    for title in ("trace", "cluster", "policy", "other options", "warnings", "made by"):
        assert name in told[title], title
    texts = Parsed(results_page(name, 2)).texts
    for words in (
        f"ratio to {name}",
        f"refused under {name}",
    ):
        assert any(words in text for text in texts), words
    for waited in (rf"{re.escape(name)}\d", re.escape(name)):  # a job; its user and its virtual cluster
        assert any(re.fullmatch(waited, text) for text in texts), waited


@pytest.mark.parametrize("name", EVIL)
def test_a_picture_holds_names_as_text(name: str) -> None:
    """What lets a picture pass as it is: Vega escapes what is in it."""

    def drawn(name: str) -> Parsed:
        rows = pl.DataFrame({"name": [name, "b"], "value": [1, 2]})
        chart = alt.Chart(rows, title=name).mark_bar().encode(x="value:Q", y="name:N", tooltip=["name:N"])
        return Parsed(vl_convert.vegalite_to_svg(chart.to_json()))

    assert drawn(name).elements == drawn(plain(name)).elements
    assert any(name in text for text in drawn(name).texts)


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        render("outcome")


def test_a_page_is_known_by_its_start() -> None:
    assert is_page(results_page(plain(ALL), 1).encode()[:512])
    assert not is_page(inspected(plain(ALL)).encode()[:512])


# No other way to make markup

ELEMENTS: Final = (
    "a|article|b|body|br|button|caption|circle|code|details|div|em|figcaption|figure|footer|g|h[1-6]|head|header"
    "|html|i|iframe|img|input|label|li|line|link|main|meta|nav|noscript|ol|option|p|path|pre|rect|script|section"
    "|select|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|text|textarea|tfoot|th|thead|title|tr|ul"
)
MARKUP: Final = re.compile(rf"</?({ELEMENTS})\b(\s|>|/|$)|&(\w+|#\w+);")


def strings(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, parts of f-strings too, without what documents it."""
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documents:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


def imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports: `module` and `module.name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def faults(text: str) -> list[str]:
    """The markup that a module makes by hand, and what it imports to make some."""
    tree = ast.parse(text)
    made = [string for string in strings(tree) if MARKUP.search(string)]
    return made + [name for name in imports(tree) if name.split(".")[0] in ("html", "jinja2", "markupsafe")]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_module_makes_markup_by_hand(path: Path) -> None:
    result = faults(path.read_text(encoding="utf-8"))
    if path.relative_to(PACKAGE).as_posix() == MAKER:
        assert {"jinja2.Environment", "markupsafe.Markup"} <= set(result)
    else:
        assert result == OTHERS.get(path.relative_to(PACKAGE).as_posix(), [])


@pytest.mark.parametrize(
    "text",
    ["from html import escape", "import html", 'x = f"<td>{y}</td>"', 'x = "<br>" + y', 'x = f"&times;{y}"'],
)
def test_markup_made_by_hand_is_seen(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_escapes_all_it_is_given(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(safe|escape|e|forceescape|xmlattr|urlize)\b|autoescape|Markup", text)
    # An attribute without quotes ends at the first space of what is put in.
    assert not re.search(r"=\{\{", text)
    # In a script only data as JSON, and the package's own files.
    for script in re.findall(r"<script[^>]*>(.*?)</script>", text, re.S):
        for put in re.findall(r"\{\{(.*?)\}\}", script):
            assert re.fullmatch(r' \w+\|tojson | asset\("[a-z.]+"\) ', put), put


def test_the_templates_are_there() -> None:
    assert {path.name.partition(".")[0] for path in TEMPLATES} >= {
        "results", "sweep", "inspect", "outcome", "comparison",
    }  # fmt: skip
