"""A comparison on a terminal: policies as rows or, of all measures, measures as rows where there is room."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ringbco.result.fairness import inequality, others, payers
from ringbco.result.figures import AS_IN_LOG, OVER_BOUND
from ringbco.result.sentences import ONE_RUN, of_one_run
from ringbco.units import duration, figure, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from ringbco.result.comparison import Comparison
    from ringbco.result.figures import Figure

T = TypeVar("T")
SORTED_BY: Final = "mean_jct"
_FEW: Final = 5
_FIRST: Final = (SORTED_BY, "p90_wait")
_THEN: Final = (
    "worst_finish_time_fairness",
    "utilisation_to_last_submission",
    "utilisation",
    "makespan",
)
_NARROWEST: Final = 10
_LABELS: Final = (16, 12)
_OWNERS: Final = 20
_OWNER_ROOM: Final = 24


class _Look(NamedTuple):
    """How a table looks: of how many measures with ratios, what is beneath a figure, how wide labels are.

    stacked: the ends of an interval stand below each other.
    """

    ratios: int
    room: int = _LABELS[0]
    range: bool = True
    stacked: bool = False


def show(
    title: str, comparison: Comparison, console: Console, sort: str | None = None, *, every: bool = False
) -> None:
    """Prints the title, the tables and what their marks mean. sort, every: as for `tables`."""
    console.print(title)
    made, with_ratios = tables(comparison, console, sort, every=every)
    measures = list(comparison.display_rows)
    told = [f"{len(made)} tables, one below the other"] if len(made) > 1 else []
    told += [f"best first by {measure.title}" for measure in measures if measure.key == (sort or SORTED_BY)]
    if not every and len(measures) > _FEW:
        told.append(f"{_FEW} of {len(measures)} measures, --all prints the others")
    console.print("; ".join(told))
    for table in made:
        console.print(table)
    first = comparison.baseline_label
    star = "* best of its measure, and apart from all others" if _starred(comparison) else ""
    against = f"ratios are to {first}" if with_ratios else ""
    if star or against:
        console.print("; ".join(filter(None, (star, against))), markup=False)
    _show_verdicts(comparison, console, sort, every=every)
    if comparison.not_comparable:
        console.print(
            f"not starred (different jobs or cluster from {first}): {', '.join(comparison.not_comparable)}",
            markup=False,
        )
    unbounded = [label for label, bound in comparison.bounds.items() if bound is None]
    if unbounded and (every or sort == OVER_BOUND.key):
        console.print(f"without a lower bound (docs/bound.md): {', '.join(unbounded)}")
    foreknown = [f"{label} ({', '.join(read)})" for label, read in _clairvoyant(comparison).items() if read]
    if foreknown:
        console.print(f"clairvoyant, reading recorded run times: {'; '.join(foreknown)}")


def _starred(comparison: Comparison) -> bool:
    return any(entry.best for entries in comparison.display_rows.values() for entry in entries)


def _show_verdicts(comparison: Comparison, console: Console, sort: str | None, *, every: bool) -> None:
    """How the others lie beside the baseline, a line each: of one measure, or of all."""
    measures = [row for row in comparison.display_rows if every or row.key == (sort or SORTED_BY)]
    shown = 0
    for measure in measures:
        lines = comparison.lines(measure)
        if not lines:
            continue
        shown += len(lines)
        console.print(f"{measure.title} against {comparison.baseline_label}:", markup=False)
        wide = [max(map(len, lines))]
        figures = [cells for cells in lines.values() if len(cells) > 1]
        wide += [max((len(cells[place]) for cells in figures), default=0) for place in range(2)]
        for label, cells in lines.items():
            # A verdict without figures is one long cell: it widens no column.
            padded = (part.ljust(width) for part, width in zip((label, *cells), (*wide, 0), strict=False))
            text = " " + "   ".join(padded).rstrip()
            if len(cells) > 2 and len(text) > console.width:
                console.print(text[: -len(cells[2])].rstrip(), markup=False)
                text = " " * (wide[0] + 4) + cells[2]
            console.print(text, markup=False)
    # Existing results have no further runs.
    one = ONE_RUN if comparison.variation.changed else of_one_run(list(comparison.outcomes))
    for line in (*([] if comparison.summaries_by_run else [one]), *comparison.notes(shown)):
        console.print(line, markup=False)


def show_by(comparison: Comparison, columns: Sequence[str], console: Console) -> None:
    """Prints the figures by owner, column by column, how unequal users fare, and who pays."""
    comparison = comparison.best_first
    for column in columns:
        _show_owners(comparison, column, console)
    console.print(
        "mean waiting time; below it mean slowdown, and the share of GPU-hours over what is due: of the"
        " quotas, else of all owners alike"
    )
    for label, outcome in comparison.outcomes.items():
        told = inequality(outcome)
        if told:
            console.print(
                f"{label}: users' speeds have Jain {told['jain']:.3f} and Gini {told['gini']:.3f}; the worst"
                f" 5 % of users run at {percent(told['worst'], 1)} of full speed",
                markup=False,
            )
    for line in payers(comparison.outcomes, comparison.baseline_label, *columns):
        console.print(line, markup=False)


def _show_owners(comparison: Comparison, column: str, console: Console) -> None:
    frame = comparison.by(column)
    owners = frame["owner"].unique(maintain_order=True)
    known = {(row["policy"], row["owner"]): row for row in frame.iter_rows(named=True)}
    first_ones = owners.head(_OWNERS).to_list()
    shown = {
        owner: {label: known.get((label, owner)) for label in comparison.outcomes} for owner in first_ones
    }
    more = owners.len() - _OWNERS
    if more > 0:
        # Small owners are many, and what becomes of them is what is asked.
        shown[f"{more:,} more"] = {
            label: others(outcome, column, first_ones) for label, outcome in comparison.outcomes.items()
        }
    made = _by_owner(column, shown, list(comparison.outcomes), console)
    if len(made) > 1:
        console.print(f"by {column}: {len(made)} tables, one below the other")
    for table in made:
        console.print(table)


def _by_owner(
    column: str,
    shown: Mapping[Any, Mapping[str, Mapping[str, Any] | None]],
    labels: Sequence[str],
    console: Console,
) -> list[Table]:
    """Owners as rows and policies as columns: one table where it fits, else several. Nothing is cut."""

    def made(room: int | None, part: Sequence[str]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(column, overflow="fold", max_width=_OWNER_ROOM)
        for name in ("jobs", "GPU-\nhours", "due"):
            table.add_column(name, justify="right", overflow="fold")
        for label in part:
            table.add_column(Text(label), justify="right", overflow="fold", max_width=room)
        for owner, rows in shown.items():
            first = next(row for row in rows.values() if row is not None)
            table.add_row(
                Text(str(owner)),
                f"{first['jobs']:,}",
                figure("number", first["gpu_hours"]),
                "-" if first["due"] is None else percent(first["due"], 1),
                *("-" if row is None else _fares(row) for row in (rows[label] for label in part)),
            )
        return table

    whole = made(None, labels)
    if fits(whole, console):
        return [whole]
    # A name takes several lines rather than another table.
    cells = (_fares(row) for rows in shown.values() for row in rows.values() if row is not None)
    least = max((len(line) for cell in cells for line in cell.split("\n")), default=0)
    rooms = sorted({max(room, least) for room in (*map(len, labels), *_LABELS)}, reverse=True)
    tried = [_in_parts(labels, partial(made, room), console) for room in rooms]
    return min(tried, key=len)


def _in_parts(columns: Sequence[T], made: Callable[[Sequence[T]], Table], console: Console) -> list[Table]:
    """Tables of as many of the columns as fit, in turn; of one at least."""
    tables, left = list[Table](), columns
    while left:
        for count in range(len(left), 0, -1):
            table = made(left[:count])
            if count == 1 or fits(table, console):
                break
        tables.append(table)
        left = left[count:]
    return tables


def _fares(row: Mapping[str, Any]) -> str:
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return f"{duration(row['mean_wait'])}\n{row['mean_slowdown']:,.2f} {ratio:>6}"


def _clairvoyant(comparison: Comparison) -> dict[str, list[str]]:
    from ringbco.run.clairvoyance import foreknowledge

    return {label: foreknowledge(outcome.run) for label, outcome in comparison.outcomes.items()}


def tables(
    comparison: Comparison, console: Console, sort: str | None = None, *, every: bool = False
) -> tuple[list[Table], bool]:
    """The comparison as tables, and whether one of them has ratios.

    A row is a policy, the best by `sort` first (by default the mean completion time), and a column one of
    `few`. With `every` measure it is one table with one column per policy, where the console is wide enough
    for that and `sort` names none; else as many measures beside each other as fit.
    """
    order = ranked(comparison, sort or SORTED_BY)
    if not every:
        return _side_by_side(comparison, order, few(comparison, sort), console, ranges=False)
    whole = by_measure(comparison, order)
    if sort is None and fits(whole, console):
        return [whole], True
    made, with_ratios = list[Table](), False
    for _, group in groupby(comparison.display_rows, key=lambda measure: measure.spread):
        found, own = _side_by_side(comparison, order, list(group), console)
        made, with_ratios = made + found, with_ratios or own
    return made, with_ratios


def few(comparison: Comparison, sort: str | None = None) -> list[Figure]:
    """The measures for which there is room: that of `sort`, and those that people ask for first.

    What only some runs have and more of is better, as goodput with outages, goes before what all runs have;
    waits as recorded beside a run of the log alone.
    """
    shown = list(comparison.display_rows)
    known = {measure.key: measure for measure in shown}
    # A comparison of policies alone does not ask which of them is like the log.
    aside = () if comparison.follows_log else AS_IN_LOG
    of_some = [
        one.key
        for one in shown
        if one.shown_in == "headline" and one.sometimes and one.better == "most" and one.key not in aside
    ]
    wanted = [sort, *_FIRST, *of_some, *_THEN]
    # After the last submission only the longest jobs run out: both utilisations tell much the same.
    if _THEN[1] in known:
        wanted.remove(_THEN[2])
    chosen = dict.fromkeys(key for key in (*wanted, *known) if key in known)
    return [known[key] for key in list(chosen)[:_FEW]]


def ranked(comparison: Comparison, key: str) -> list[int]:
    """The outcomes' numbers by a measure, its good end first; those without such a figure are last."""
    for measure, entries in comparison.rows.items():
        if measure.key == key:
            sign = -1.0 if measure.better == "most" else 1.0
            return sorted(
                range(len(entries)),
                key=lambda number: (entries[number].value is None, sign * (entries[number].value or 0.0)),
            )
    return list(range(len(comparison.outcomes)))


def _side_by_side(
    comparison: Comparison,
    order: Sequence[int],
    measures: Sequence[Figure],
    console: Console,
    *,
    ranges: bool = True,
) -> tuple[list[Table], bool]:
    """One table of these measures where they fit, else several; and whether there are ratios.

    Ratios go first, then those of all measures but the first, before a table is broken. ranges: whether the
    least and the greatest value stand below a figure, too.
    """
    rooms = (max(_LABELS[0], console.width // 3), *_LABELS)
    looks = [_Look(count, room, ranges) for count in (len(measures), 1, 0) for room in rooms[:-1]]
    for look in (*looks, *(_Look(0, room, ranges, stacked=True) for room in rooms)):
        table = _by_policy(comparison, order, measures, look)
        if fits(table, console):
            return [table], look.ratios > 0
    return _in_parts(measures, lambda part: _by_policy(comparison, order, part, looks[0]), console), True


def fits(table: Table, console: Console) -> bool:
    """Whether nothing of the table has to be cut or folded."""
    unbounded = console.options.update(width=1 << 16)
    return Measurement.get(console, unbounded, table).maximum <= console.width


def by_measure(comparison: Comparison, order: Sequence[int] | None = None) -> Table:
    """One row per measure, one column per policy, in the order of the comparison by default."""
    labels = list(comparison.outcomes)
    order = range(len(labels)) if order is None else order
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True, min_width=_NARROWEST)
    for number in order:
        table.add_column(Text(labels[number]), justify="right", no_wrap=True)
    rows = list(comparison.display_rows)
    for measure, following in zip(rows, [*rows[1:], None], strict=True):
        # A line between one kind of statistics and the next.
        last = following is not None and measure.spread != following.spread
        cells = _cells(comparison, measure, _Look(1), ratios=True)
        table.add_row(measure.title, *(cells[number] for number in order), end_section=last)
    return table


def _by_policy(
    comparison: Comparison,
    order: Sequence[int],
    measures: Sequence[Figure],
    look: _Look,
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0 if look.stacked else 1))
    labels = list(comparison.outcomes)
    # A label of many settings takes several lines rather than the figures' room.
    table.add_column("", max_width=min(look.room, max(map(len, labels))), overflow="fold")
    columns = []
    for number, measure in enumerate(measures):
        # One word a line: the figures are narrower than their titles.
        table.add_column(Text(measure.title.replace(" ", "\n")), justify="right", no_wrap=True)
        columns.append(_cells(comparison, measure, look, ratios=number < look.ratios))
    for number in order:
        table.add_row(Text(labels[number]), *(column[number] for column in columns))
    return table


def _cells(comparison: Comparison, measure: Figure, look: _Look, *, ratios: bool) -> list[Text]:
    entries, labels = comparison.rows[measure], list(comparison.outcomes)
    shown = [measure.brief(entry.value) for entry in entries]
    cells = []
    for number, (entry, text) in enumerate(zip(entries, shown, strict=True)):
        cell = Text(text + ("*" if entry.best else " "), style="bold" if entry.best else "")
        ratio = "-" if entry.ratio is None else f"{entry.ratio:.2f}"
        if ratios:
            # The baseline's is 1 by its nature; its place is kept, for policies may be rows.
            ratio = "" if labels[number] == comparison.baseline_label else ratio
            cell.append(f" {ratio:>5}", style="not bold dim")
        for line in comparison.interval_lines(labels[number], measure) if look.range else ():
            for part in line.replace(" to ", " to\n").split("\n") if look.stacked else (line,):
                cell.append(f"\n{part}", style="not bold dim")
                cell.append(" " * (7 if ratios else 1))
        cells.append(cell)
    return cells
