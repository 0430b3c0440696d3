"""`ringbco inspect`: what is in a job table, before anything is replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json
from ringbco.units import percent

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType
    from rich.table import Table

    from ringbco.cli.fitted import Fitted
    from ringbco.trace.jobs import JobTable

_Groups: TypeAlias = Sequence[Mapping[str, Any]]
_LONGEST_LIST: Final = 12
_SHOWN: Final = ("mean", "min", "median", "p90", "p99", "max")
_GROUPS: Final = (
    ("virtual cluster", "vc", "vcs"),
    ("user", "user", "users"),
    ("status", "status", "statuses"),
)

_ROWS: Final = """
jobs JOBS: The job table, or a table of requests (arrival, input_tokens, output_tokens), Parquet or CSV.
services FILE.toml: Of requests, also show what one replica of each service in this file can sustain. Default:
  none.
cluster SxG|C.toml|preset:NAME: Also show the load on this cluster's GPUs and the jobs too large for it.
  Default: none.
shape {philly|helios-venus|helios-earth|helios-saturn|helios-uranus}|openb: The published trace to compare
  with. Default: the trace that the table names.
png FILE.png: Also draw the charts.
html FILE.html: Also draw them as a page that needs no network and shows values under the pointer.
units
force: Replace chart files that ringbco wrote.
as_json --json: Print the figures as JSON and nothing else.
quiet --quiet -q: Print nothing but errors; for use with --png and --html.
"""


@takes(_ROWS)
def inspect(
    jobs: Path,
    *,
    services: str | None = None,
    cluster: str | None = None,
    shape: str | None = None,
    png: Path | None = None,
    html: Path | None = None,
    units: str = "human",
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Describe a job table: counts, shapes, load, users, and rows worth checking; or a table of requests.

    If JOBS has recorded starts, its waits in the log, by size and owner, and its utilisation are shown, too.
    Published figures of the trace stand beside them, so that an incomplete file shows. Rows that break a rule
    of the job table are counted by reason and left out; `replay` rejects a table that has any.

    Of requests it shows the rate over time, bursts, and lengths in tokens: mean, median, p90, p95, p99, max
    (docs/serving.md).

    Example: ringbco inspect jobs.parquet --cluster preset:philly --png sheet.png
    """
    from ringbco.cli.inputs import tell_left_out
    from ringbco.cluster.spec import Cluster
    from ringbco.study import published
    from ringbco.study.inspection import inspect_jobs, usable
    from ringbco.trace.jobs import screen_jobs
    from ringbco.units import check_units, shown_in

    check_units(units)
    drawn = {"cluster": cluster, "shape": shape, "png": png, "html": html}
    if _of_requests(jobs, services, drawn):
        from ringbco.cli.inspect_requests import inspect_requests

        inspect_requests(jobs, services, units=units, as_json=as_json, quiet=quiet)
        return
    if shape is not None:
        published.check_name(shape)
    _check_outputs(jobs, png, html, force=force)
    machine = None if cluster is None else Cluster.parse(cluster)
    screening = screen_jobs(jobs)
    table = usable(screening, jobs)
    tell_left_out(table, quiet=quiet)
    inspection = inspect_jobs(table, machine, screening.dropped, screening.rows, shape)
    _draw(table.frame, inspection, jobs.name, png, html, force=force)
    if as_json:
        say_json(inspection)
    elif not quiet:
        with shown_in(units):
            _show(jobs, table, inspection, (png, html))


def _of_requests(path: Path, services: str | None, others: Mapping[str, object]) -> bool:
    """Whether the table is one of requests. Raises UsageError for an option of the other kind of table."""
    from ringbco.errors import UsageError
    from ringbco.trace.requests import names_requests

    found = names_requests(path)
    if not found and services is not None:
        raise UsageError(f"option services: {path} is no table of requests, which has a column arrival")
    for name, value in others.items():
        if found and value is not None:
            raise UsageError(f"option {name}: {path} is a table of requests: expected a job table")
    return found


def _show(jobs: Path, table: JobTable, inspection: Mapping[str, Any], charts: Sequence[Path | None]) -> None:
    from ringbco.io.console import Console
    from ringbco.sources.account import Account

    console = Console()
    say(f"{inspection['jobs']:,} jobs in {jobs}")
    console.print(tables(inspection))
    account = Account.from_metadata(table.metadata)
    if account is not None:
        console.print(account.to_table("the converter's account"))
        console.print()
    if inspection["published"]["shape"]:
        console.print(_published(inspection["published"]))
    elif inspection["published"]["because"]:
        console.print(inspection["published"]["because"])
    for path in charts:
        if path is not None:
            say(f"charts in {path}")


def _check_outputs(jobs: Path, png: Path | None, html: Path | None, *, force: bool) -> None:
    from ringbco.errors import InputError, UsageError
    from ringbco.io.atomic import check_output
    from ringbco.io.marks import SHEET, picture

    for path, ending, mark in ((png, ".png", picture("inspect")), (html, ".html", SHEET)):
        if path is None:
            continue
        if path.suffix.lower() != ending:
            raise UsageError(f"option {ending[1:]}: {path}: expected a name that ends in {ending}")
        if path.exists() and jobs.exists() and path.samefile(jobs):
            raise InputError("is the job table itself", file=path, hint="give the charts another name")
        check_output(path, mark, force=force)


def _draw(
    frame: pl.DataFrame,
    inspection: Mapping[str, Any],
    name: str,
    png: Path | None,
    html: Path | None,
    *,
    force: bool,
) -> None:
    """Writes the sheet of charts: both files or neither."""
    if png is None and html is None:
        return
    from contextlib import ExitStack

    from ringbco.io.atomic import replacing
    from ringbco.io.marks import SHEET, picture, signed
    from ringbco.reports.pictures import sheet
    from ringbco.reports.sheet import figures
    from ringbco.reports.sheet_page import inspect_page

    with ExitStack() as files:
        if png is not None:
            charts = figures(frame, inspection)
            drawn = signed(sheet(charts, name, _caption(inspection)), "inspect")
            files.enter_context(replacing(png, picture("inspect"), force=force)).write(drawn)
        if html is not None:
            text = inspect_page(frame, inspection, title=name, said=_caption(inspection)).encode()
            files.enter_context(replacing(html, SHEET, force=force)).write(text)


def _caption(inspection: Mapping[str, Any]) -> list[str]:
    from ringbco.units import duration

    text = f"{inspection['jobs']:,} jobs over {duration(inspection['span'])}"
    text += f", {inspection['gpu_seconds'] / 3600:,.0f} GPU hours"
    cluster = inspection["cluster"]
    if cluster and cluster["load"] is not None:
        text += f", {percent(cluster['load'], 1)} of the {cluster['gpus']:,} GPUs of {cluster['name']}"
    published = inspection["published"]
    return [text, f"{published['title']}: {published['verdict']}"] if published["shape"] else [text]


def tables(inspection: Mapping[str, Any], *, brief: bool = False) -> RenderableType:
    """The figures of `inspect_jobs` for a terminal; `brief` leaves out all but counts, times and sizes."""
    from rich.console import Group

    parts: list[RenderableType] = [_overview(inspection), _spreads(inspection)]
    parts.append(_groups("GPUs", "num_gpus", inspection["sizes"]))
    if not brief:
        for title, column, key in _GROUPS:
            if inspection[key]:
                parts.append(_groups(title, column, inspection[key]))
        waits = inspection["recorded"]["waits_by"] if inspection["recorded"] else {}
        titles = {"num_gpus": "GPUs", "user": "user", "vc": "virtual cluster"}
        parts += [_waits(titles[name], name, groups) for name, groups in waits.items() if groups]
        if inspection["gpu_types"]:
            parts.append(_asked_types(inspection["gpu_types"]))
        if inspection["priorities"]:
            parts.append(_priorities(inspection["priorities"]))
        if inspection["cluster"] and inspection["cluster"]["vcs"]:
            parts.append(_loads(inspection["cluster"]["vcs"]))
        parts.append(_cleaning(inspection["cleaning"]))
        if inspection["metadata"]:
            parts.append(_metadata(inspection["metadata"]))
    return Group(*parts)


def _overview(figures: Mapping[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from ringbco.units import duration, gpu_time

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("submission span", duration(figures["span"]))
    # No file says its unit: who knows the trace sees at once which of the two it is.
    small = figures["if_milliseconds"]
    also = f"and a median run of {duration(small['median_duration'])}"
    table.add_row("if times are in ms", f"{duration(small['span'])}, {also}")
    demanded = figures["mean_gpus_demanded"]
    work = gpu_time(figures["gpu_seconds"])
    table.add_row("work", work + (f", {demanded:,.1f} GPUs on average" if demanded is not None else ""))
    cluster = figures["cluster"]
    if cluster and cluster["load"] is not None:
        load = f"{percent(cluster['load'], 1)} of the {cluster['gpus']:,} GPUs of {cluster['name']}"
        table.add_row("load", Text(load))
    if cluster:
        table.add_row("load by day", _by_day(cluster["load_by_day"]))
    table.add_row("iterations", _iterations(figures["iterations"]))
    log = figures["recorded"]
    if log:
        known = f"{log['jobs']:,} jobs, {percent(log['jobs'] / figures['jobs'], 1)}"
        table.add_row("recorded starts", known)
        if log["utilisation"] is not None:
            of = f"the {log['gpus']:,.10g} GPUs of {cluster['name']}" if cluster else ""
            of = of or f"{log['gpus']:,.10g} GPUs, the most that they held at once"
            used = f"{percent(log['utilisation'], 1)} of {of}, from the first to the last submission"
            table.add_row("recorded utilisation", Text(used))
    elastic = figures["elastic"]
    if elastic["jobs"]:
        ranges = f"{elastic['fewer']:,} may hold fewer GPUs than num_gpus, {elastic['more']:,} more"
        table.add_row("elastic", f"{elastic['jobs']:,} jobs: {ranges}")
    chains = figures["chains"]
    if chains is not None:
        longest = f", at most {chains['longest']:,} one after another" if chains["chains"] else ""
        table.add_row("chains", f"{chains['chains']:,}, of {chains['jobs']:,} jobs{longest}")
    same, ties = figures["same_second"], figures["ties"]
    table.add_row("same-second jobs", f"{same['jobs']:,} jobs, {percent(same['share'], 1)}")
    movable = f"{ties['jobs']:,} jobs, {percent(ties['share'], 1)}, ordered by --ties"
    if ties["in_one_vc"]:
        movable += f" ({percent(ties['in_one_vc']['share'], 1)} in the same virtual cluster)"
    table.add_row("equal submit_time", movable)
    if not figures["sorted"]:
        table.add_row("order", "rows are not in order of submit_time")
    users, vcs = figures["users"], figures["vcs"]
    if users or vcs:
        named = ((users, "user"), (vcs, "vc", "virtual cluster"))
        table.add_row("owners", ", ".join(_count(*each) for each in named if each[0]))
    for name, near in figures["columns"]["extra"].items():
        hint = f"; did you mean {near}?" if near else ""
        table.add_row("extra column", Text(f"{name}{hint}"))
    return table


def _count(groups: Sequence[Mapping[str, Any]], column: str, what: str = "") -> str:
    """How many users, say, there are; jobs without one are no user."""
    names = sum(group[column] is not None for group in groups)
    return f"{names:,} {what or column}{'s'[: names > 1]}"


def _iterations(figures: Mapping[str, Any]) -> str:
    derived = f"from the run times recorded on {figures['recorded_on']}"
    if not figures["given"]:
        return derived
    if not figures["derived"]:
        return "given for every job"
    return f"given for {figures['given']:,} jobs; for {figures['derived']:,} {derived}"


def _by_day(loads: Mapping[str, Any]) -> str:
    spread = ", ".join(f"{name} {percent(loads[name], 1)}" for name in ("median", "p90", "max"))
    return f"{spread}; above 100 % on {loads['days_over']:,} of {loads['days']:,} days"


def _spreads(figures: Mapping[str, Any]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("", *_SHOWN)
    log = figures["recorded"] and figures["recorded"]["waits"]
    rows = (("run time", figures["duration"]), ("interarrival time", figures["interarrival"]))
    for title, spread in (*rows, ("recorded wait", log)):
        if spread:
            table.add_row(title, *(duration(spread[name]) for name in _SHOWN))
    table.add_row("GPUs", *(f"{figures['num_gpus'][name]:,.4g}" for name in _SHOWN))
    return table


def _groups(title: str, column: str, groups: _Groups) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted(title, "jobs", "share", "share of work", "median run", "mean run")
    shown, rest = _most_jobs(groups)
    for group in shown:
        table.add_row(
            _name(group[column]),
            f"{group['jobs']:,}",
            percent(group["share"], 1),
            percent(group["work_share"], 1),
            duration(group["median_duration"]),
            duration(group["mean_duration"]),
        )
    if rest:
        shares = (sum(group[name] for group in rest) for name in ("share", "work_share"))
        jobs = sum(group["jobs"] for group in rest)
        table.add_row(f"{len(rest):,} others", f"{jobs:,}", *(percent(share, 1) for share in shares), "", "")
    return table


def _most_jobs(groups: _Groups) -> tuple[_Groups, _Groups]:
    """The groups with the most jobs, in their order, and the others."""
    shown = sorted(sorted(range(len(groups)), key=lambda at: -groups[at]["jobs"])[:_LONGEST_LIST])
    return [groups[at] for at in shown], [group for at, group in enumerate(groups) if at not in shown]


def _name(value: object) -> str:
    return "(none)" if value is None else str(value)


def _waits(title: str, column: str, groups: _Groups) -> Fitted:
    """Waits in the log by a column's values."""
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    shown, rest = _most_jobs(groups)
    table = Fitted(title, "jobs", "mean recorded wait", "median", "p90")
    for group in shown:
        waits = (duration(group[name]) for name in ("mean", "median", "p90"))
        table.add_row(_name(group[column]), f"{group['jobs']:,}", *waits)
    if rest:
        table.add_row(f"{len(rest):,} others", f"{sum(group['jobs'] for group in rest):,}", "", "", "")
    return table


def _asked_types(groups: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("GPU type asked", "jobs", "share", "GPU-hours", "share of work", "median run")
    for group in groups:
        table.add_row(
            group["gpu_type"] or "(any)",
            f"{group['jobs']:,}",
            percent(group["share"], 1),
            f"{group['gpu_seconds'] / 3600:,.0f}",
            percent(group["work_share"], 1),
            duration(group["median_duration"]),
        )
    return table


def _priorities(groups: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted
    from ringbco.units import duration

    table = Fitted("priority", "jobs", "share", "may be evicted", "GPU-hours", "share of work", "median run")
    for group in groups:
        table.add_row(
            str(group["priority"]),
            f"{group['jobs']:,}",
            percent(group["share"], 1),
            f"{group['preemptible']:,}",
            f"{group['gpu_seconds'] / 3600:,.0f}",
            percent(group["work_share"], 1),
            duration(group["median_duration"]),
        )
    return table


def _loads(vcs: Sequence[Mapping[str, Any]]) -> Fitted:
    from ringbco.cli.fitted import Fitted

    titles = ("GPUs", "jobs", "load", "median day", "fullest day", "days above 100 %")
    table = Fitted("virtual cluster", *titles)
    for row in vcs:
        load = "" if row["load"] is None else percent(row["load"], 1)
        days = row["load_by_day"]
        by_day = (percent(days["median"], 1), percent(days["max"], 1), f"{days['days_over']:,}")
        table.add_row(row["vc"], f"{row['gpus']:,}", f"{row['jobs']:,}", load, *by_day)
    return table


def _cleaning(cleaning: Mapping[str, Any]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not cleaning["dropped"] and not cleaning["questionable"]:
        return Text("no rows worth checking")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rows worth checking")
    for name in ("jobs", "first row"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for row in cleaning["dropped"]:
        value = row["first_value"] if row["first_value"] is not None else "null"
        beside = f" beside {row['first_beside']}" if row["first_beside"] else ""
        because = Text(f"{value} there{beside}: replay refuses the table")
        table.add_row(Text(row["reason"], style="red"), f"{row['rows']:,}", f"{row['first_row']:,}", because)
    for row in cleaning["questionable"]:
        table.add_row(Text(row["reason"]), f"{row['jobs']:,}", f"{row['first_row']:,}", row["why"])
    return table


def _metadata(metadata: Mapping[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in metadata.items():
        if key == "account" or ("account" in metadata and key.startswith("rows_")):
            continue  # printed as a table of its own
        shown = value
        if isinstance(value, dict):
            shown = ", ".join(f"{name}: {entry}" for name, entry in value.items()) or "none"
        table.add_row(key.replace("_", " "), Text(str(shown)))
    return table


def _published(published: Mapping[str, Any]) -> RenderableType:
    """The file's figures beside the published ones, then what they say."""
    from rich.console import Group
    from rich.text import Text

    from ringbco.cli.fitted import Fitted

    table = Fitted(f"published of {published['shape']}", "this file", "published", "ratio", "difference", "")
    for row in published["figures"]:
        if row["file"] is None:
            table.add_row(row["figure"], "-", _figure(row["kind"], row["published"]), "", "", "")
            continue
        share = row["kind"] == "share"
        table.add_row(
            row["figure"],
            _figure(row["kind"], row["file"]),
            _figure(row["kind"], row["published"]),
            f"{row['ratio']:.3f}",
            f"{100 * row['difference']:+.1f} points" if share else f"{row['difference']:+,.0f}",
            Text("near", style="green") if row["near"] else Text("far", style="red"),
        )
    told = f"{published['title']} ({published['origin']}; taken because: {published['because']})"
    notes = [published["verdict"], told] + ([published["note"]] if published["note"] else [])
    return Group(table, *(Text(note) for note in notes))


def _figure(kind: str, value: float) -> str:
    return {"count": f"{value:,.0f}", "time": f"{value:,.0f} s", "share": percent(value, 1)}[kind]
