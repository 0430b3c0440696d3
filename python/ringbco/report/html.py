"""`ringbco report`: results as one page that opens anywhere, offline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from ringbco.outcome import Outcome
from ringbco.report.facts import Fact, facts, headline
from ringbco.report.figures_waits import CAUSES, longest
from ringbco.report.outputs import PAGE_MARK
from ringbco.report.series import COLOURS, SHOWN, TONES, WINDOW
from ringbco.report.style import on_page, tone_name
from ringbco.units import duration

if TYPE_CHECKING:
    import polars as pl

    from ringbco.report.figures import Chapter
    from ringbco.report.series import Figure

# The page may run its own scripts (Vega compiles its expressions) and can reach nothing else.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
)


def page(results: Mapping[str, Outcome], chapters: Sequence[Chapter], *, title: str) -> str:
    """The page of these results as text: style, data and the drawing library are all inside."""
    drawn = {figure.name: on_page(figure) for chapter in chapters for figure in chapter.figures}
    labels = list(results)
    data = {"charts": drawn, "labels": labels, "shown": SHOWN, "window": WINDOW}
    body = [
        f"<header><h1>{escape(title)}</h1>{_subtitle(results)}</header>",
        _switches(labels),
        "<section><h2>What was run</h2>" + _facts_table(facts(results), labels) + "</section>",
        "<section><h2>Headline figures</h2>" + _headline_table(results) + "</section>",
    ]
    for chapter in chapters:
        figures = "".join(_figure(figure, labels) for figure in chapter.figures)
        body.append(
            f'<section><h2>{escape(chapter.title)}</h2><div class="figures">{figures}</div></section>'
        )
    body.append(_longest_waits(results))
    body.append(_footer(results))
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            PAGE_MARK,
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_tones()}{_part('page.css')}</style></head>",
            "<body>",
            *body,
            "<noscript><p>The charts need JavaScript.</p></noscript>",
            f'<script type="application/json" id="charts">{_json(data)}</script>',
            f"<script>{_library()}</script>",
            f"<script>\n{_part('page.js')}</script>",
            "</body></html>\n",
        )
    )


def _part(name: str) -> str:
    return (files("ringbco.report") / "page" / name).read_text(encoding="utf-8")


def _tones() -> str:
    """The results' colours as variables of the style sheet: light, dark, and light again on paper."""
    light, dark = (
        ":root { " + " ".join(f"{tone_name(name)}: {tone};" for name, tone in tones) + " }"
        for tones in (zip(TONES, TONES, strict=True), TONES.items())
    )
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"


def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed, of the version that altair speaks."""
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    # In a script's string `<\/` is `</`, which alone would end the element.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _subtitle(results: Mapping[str, Outcome]) -> str:
    counts = {outcome.jobs.height for outcome in results.values()}
    jobs = f"{counts.pop():,} jobs" if len(counts) == 1 else "different numbers of jobs"
    which = "one result" if len(results) == 1 else f"{len(results)} results, overlaid"
    return f'<p class="soft">{which}, {jobs}{escape(_refusals(results))}</p>'


def _refusals(results: Mapping[str, Outcome]) -> str:
    """How many jobs admission refused, where it did: whoever compares completion times must know."""
    counts = {label: outcome.summary.get("jobs_refused", 0) for label, outcome in results.items()}
    told = [
        f"{count:,} more refused by admission{f' under {label}' if len(results) > 1 else ''}"
        for label, count in counts.items()
        if count
    ]
    return f"; {', '.join(told)}: not in any figure" if told else ""


def _swatch(number: int) -> str:
    dashed = " dashed" if number >= len(COLOURS) else ""
    tone = tone_name(COLOURS[number % len(COLOURS)])
    return f'<span class="swatch{dashed}" style="border-color:var({tone})"></span>'


def _switches(labels: Sequence[str]) -> str:
    """A box a result that shows and hides it in all charts; nothing to choose from a single one."""
    if len(labels) == 1:
        return ""
    boxes = "".join(
        f'<label><input type="checkbox" value="{number}" checked autocomplete="off"> {_swatch(number)}'
        f"{escape(label)}</label>"
        for number, label in enumerate(labels)
    )
    return f'<nav aria-label="Results shown">{boxes}</nav>'


def _head(labels: Sequence[str]) -> str:
    titles = "".join(
        f"<th>{_swatch(number) if len(labels) > 1 else ''}{escape(label)}</th>"
        for number, label in enumerate(labels)
    )
    return f"<thead><tr><th></th>{titles}</tr></thead>"


def _facts_table(rows: Sequence[Fact], labels: Sequence[str]) -> str:
    """One row a fact; a fact that is the same for all results is told once."""
    cells = []
    for fact in rows:
        values = [escape(value) for value in fact.values]
        if len(set(values)) == 1:
            told = f'<td colspan="{len(labels)}">{values[0]}</td>'
        else:
            told = "".join(f"<td>{value}</td>" for value in values)
        cells.append(f"<tr><td>{escape(fact.title)}</td>{told}</tr>")
    table = f'<table class="texts">{_head(labels)}<tbody>{"".join(cells)}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _headline_table(results: Mapping[str, Outcome]) -> str:
    rows: list[str] = []
    for group in headline(results):
        for place, line in enumerate(group):
            cells = []
            for number, cell in enumerate(line.cells):
                told = f"&times;{cell.ratio:.2f}" if cell.ratio is not None else ""
                ratio = f" <small>{told}</small>" if number else ""
                cells.append(f"<td{' class=best' if cell.best else ''}>{escape(cell.text)}{ratio}</td>")
            first = ' class="first"' if place == 0 and rows else ""
            rows.append(f"<tr{first}><td>{escape(line.title)}</td>{''.join(cells)}</tr>")
    table = f"<table>{_head(list(results))}<tbody>{''.join(rows)}</tbody></table>"
    note = (
        f'<p class="soft">Green: the best of its row. &times;: ratio to {escape(next(iter(results)))}.</p>'
        if len(results) > 1
        else ""
    )
    return f'<div class="scroll">{table}</div>{note}'


def _figure(figure: Figure, labels: Sequence[str]) -> str:
    of = f' data-of="{labels.index(figure.of)}"' if figure.of is not None else ""
    half = ' class="half"' if figure.half else ""
    title, note = escape(figure.title), escape(figure.note)
    if figure.handling:
        note += f' <span class="handling">{escape(figure.handling)}</span>'
    return (
        f'<figure id="{figure.name}"{half}{of}><figcaption><h3>{title}</h3><p>{note}</p></figcaption>'
        f'<div class="chart" id="chart-{figure.name}" role="img" aria-label="{title}"></div></figure>'
    )


def _longest_waits(results: Mapping[str, Outcome]) -> str:
    """The jobs that waited longest, a table a result, folded away."""
    parts = []
    for number, (label, outcome) in enumerate(results.items()):
        jobs = longest(outcome)
        title = "The longest waits" + (f": {label}" if len(results) > 1 else "")
        told = _jobs_table(jobs) if jobs.height else '<p class="soft">No job waited.</p>'
        parts.append(
            f'<details data-of="{number}"><summary>{escape(title)}</summary>'
            f'<div class="scroll">{told}</div></details>'
        )
    return f"<section>{''.join(parts)}</section>"


def _jobs_table(jobs: pl.DataFrame) -> str:
    times = {"submit_time", "wait_time", "run_time", *CAUSES}
    titles = {"job_id": "job", "num_gpus": "GPUs", "submit_time": "submitted at", "wait_time": "waited"}
    titles |= {"run_time": "ran"} | {cause: f"of it {text}" for cause, (text, _) in CAUSES.items()}
    head = "".join(f"<th>{escape(titles.get(name, name))}</th>" for name in jobs.columns)
    rows = []
    for row in jobs.iter_rows(named=True):
        cells = []
        for name, value in row.items():
            named = ' class="name"' if isinstance(value, str) else ""
            if name in times:
                text = duration(value)
            elif isinstance(value, float):
                text = f"{value:,.2f}"
            else:
                text = f"{value:,}" if isinstance(value, int) else str(value if value is not None else "")
            cells.append(f"<td{named}>{escape(text)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _footer(results: Mapping[str, Outcome]) -> str:
    versions = sorted({outcome.run.get("ringbco", {}).get("version", "?") for outcome in results.values()})
    return (
        f"<footer>Made by ringbco {escape(', '.join(versions))}. Spanning: holding GPUs on two or more"
        " servers. Slowdown: completion time over the run time on the fewest servers without contention."
        " Percentiles interpolate linearly.</footer>"
    )
