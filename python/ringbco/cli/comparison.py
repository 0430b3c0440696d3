"""A comparison on a terminal: measures as rows or, where that is too wide, policies as rows."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ringbco.result.fairness import inequality, others, payers
from ringbco.result.told import differences, notes
from ringbco.units import duration, figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from ringbco.result.comparison import Comparison
    from ringbco.result.figures import Figure

SORTED_BY: Final = "mean_jct"
_NARROWEST: Final = 10
_SHORTEST_LABEL: Final = 16
_OWNERS: Final = 20


def show(title: str, comparison: Comparison, console: Console, sort: str | None = None) -> None:
    """Prints the title, the tables and what their marks mean. sort: as for `tables`."""
    console.print(title)
    made = tables(comparison, console, sort)
    if len(made) > 1:
        console.print(f"{len(made)} tables, one below the other{_order(comparison, sort)}")
    for table in made:
        console.print(table)
    first = comparison.against
    apart = " that can be told from all others" if comparison.repeated else ""
    console.print(f"* best of its measure{apart}; ratios are to {first}", markup=False)
    if comparison.repeated:
        console.print(
            f"over {comparison.seeds} seeds: below a figure its interval of 95 %, the least and the greatest"
            " value; the folders and the report's charts are those of the first run"
        )
        once = [label for label in comparison.outcomes if label not in comparison.repeated]
        if once:
            console.print(f"of one run: {', '.join(once)}", markup=False)
        for line in (*notes(comparison), *differences(comparison, sort)):
            console.print(line, markup=False)
    if comparison.unlike:
        console.print(
            f"without *, for other jobs or another cluster than {first}: {', '.join(comparison.unlike)}",
            markup=False,
        )
    unbounded = [label for label, bound in comparison.bounds.items() if bound is None]
    if unbounded:
        console.print(f"without a lower bound (docs/bound.md): {', '.join(unbounded)}")
    told = [f"{label} ({', '.join(read)})" for label, read in _clairvoyant(comparison).items() if read]
    if told:
        console.print(f"clairvoyant, reading recorded run times: {'; '.join(told)}")


def show_by(comparison: Comparison, column: str, console: Console) -> None:
    """Prints the figures by owner, how unequal users fare, and who pays."""
    frame = comparison.by(column)
    owners = frame["owner"].unique(maintain_order=True)
    known = {(row["policy"], row["owner"]): row for row in frame.iter_rows(named=True)}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(column)
    for name in ("jobs", "GPU-\nhours", "due"):
        table.add_column(name, justify="right")
    for label in comparison.outcomes:
        table.add_column(Text(label), justify="right")
    first_ones = owners.head(_OWNERS).to_list()
    shown = {owner: [known.get((label, owner)) for label in comparison.outcomes] for owner in first_ones}
    more = owners.len() - _OWNERS
    if more > 0:
        # Small owners are many, and what becomes of them is what is asked.
        rest = [others(outcome, column, first_ones) for outcome in comparison.outcomes.values()]
        shown[f"{more:,} more"] = rest
    for owner, rows in shown.items():
        first = next(row for row in rows if row is not None)
        hours, due = figure("number", first["gpu_hours"]), first["due"]
        table.add_row(
            Text(str(owner)),
            f"{first['jobs']:,}",
            hours,
            "-" if due is None else f"{due:.1%}",
            *("-" if row is None else _fares(row) for row in rows),
        )
    console.print(table)
    console.print(
        "mean waiting time; below it mean slowdown, and the share of GPU-hours over what is due: of the"
        " quotas, else of all owners alike"
    )
    for label, outcome in comparison.outcomes.items():
        told = inequality(outcome)
        if told:
            console.print(
                f"{label}: users' speeds have Jain {told['jain']:.3f} and Gini {told['gini']:.3f}; the worst"
                f" 5 % of users run at {told['worst']:.1%} of full speed",
                markup=False,
            )
    for line in payers(comparison.outcomes, comparison.against, column):
        console.print(line, markup=False)


def _fares(row: Mapping[str, Any]) -> str:
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return f"{duration(row['mean_wait'])}\n{row['mean_slowdown']:,.2f} {ratio:>6}"


def _order(comparison: Comparison, sort: str | None) -> str:
    by = [measure.title for measure in comparison.rows if measure.key == (sort or SORTED_BY)]
    return f"; sorted by {by[0]}" if by else ""


def _clairvoyant(comparison: Comparison) -> dict[str, list[str]]:
    from ringbco.run.scheduling import foreknowledge

    return {label: foreknowledge(outcome.run) for label, outcome in comparison.outcomes.items()}


def tables(comparison: Comparison, console: Console, sort: str | None = None) -> list[Table]:
    """The comparison as one table with a column a policy, where the console is wide enough for it.

    Otherwise, and wherever `sort` names a measure, as tables with a row a policy, sorted by that measure
    (by default the mean completion time), best first, and as many measures beside each other as fit. The
    statistics of one figure go without their ratios where only so they fit in one table.
    """
    if sort is None:
        whole = by_measure(comparison)
        if _fits(whole, console):
            return [whole]
    order = ranked(comparison, sort or SORTED_BY)
    made: list[Table] = []
    for _, group in groupby(comparison.shown, key=lambda measure: measure.spread):
        left = list(group)
        bare = _by_policy(comparison, order, left, console, ratios=False)
        with_ratios = _fits(_by_policy(comparison, order, left, console), console)
        if left[0].spread and not with_ratios and _fits(bare, console):
            made.append(bare)
            continue
        while left:
            taken = _widest(comparison, order, left, console)
            made.append(_by_policy(comparison, order, left[:taken], console))
            left = left[taken:]
    return made


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


def _fits(table: Table, console: Console) -> bool:
    unbounded = console.options.update(width=1 << 16)
    return Measurement.get(console, unbounded, table).maximum <= console.width


def _widest(
    comparison: Comparison, order: Sequence[int], measures: Sequence[Figure], console: Console
) -> int:
    """How many of the measures fit beside each other, at least one."""
    for count in range(len(measures), 1, -1):
        if _fits(_by_policy(comparison, order, measures[:count], console), console):
            return count
    return 1


def by_measure(comparison: Comparison, *, ratios: bool = True) -> Table:
    """A row a measure, a column a policy."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True, min_width=_NARROWEST)
    for label in comparison.outcomes:
        table.add_column(Text(label), justify="right", no_wrap=True)
    rows = list(comparison.shown)
    for measure, following in zip(rows, [*rows[1:], None], strict=True):
        # A line between one kind of statistics and the next.
        last = following is not None and measure.spread != following.spread
        table.add_row(measure.title, *_cells(comparison, measure, ratios=ratios), end_section=last)
    return table


def _by_policy(
    comparison: Comparison,
    order: Sequence[int],
    measures: Sequence[Figure],
    console: Console,
    *,
    ratios: bool = True,
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    labels = list(comparison.outcomes)
    # A label of many settings takes several lines rather than the figures' room.
    room = max(_SHORTEST_LABEL, console.width // 3)
    table.add_column("", max_width=min(room, max(map(len, labels))), overflow="fold")
    columns = []
    for measure in measures:
        # One word a line: the figures are narrower than their titles.
        table.add_column(Text(measure.title.replace(" ", "\n")), justify="right", no_wrap=True)
        columns.append(_cells(comparison, measure, ratios=ratios))
    for number in order:
        table.add_row(Text(labels[number]), *(column[number] for column in columns))
    return table


def _cells(comparison: Comparison, measure: Figure, *, ratios: bool = True) -> list[Text]:
    entries, labels = comparison.rows[measure], list(comparison.outcomes)
    shown = measure.show_all([entry.value for entry in entries])
    cells = []
    for number, (entry, text) in enumerate(zip(entries, shown, strict=True)):
        cell = Text(text + ("*" if entry.best else " "), style="bold" if entry.best else "")
        ratio = "-" if entry.ratio is None else f"{entry.ratio:.2f}"
        if ratios:
            # The baseline's is 1 by its nature; its place is kept, for policies may be rows.
            ratio = "" if labels[number] == comparison.against else ratio
            cell.append(f" {ratio:>5}", style="not bold dim")
        for line in comparison.beneath(labels[number], measure):
            cell.append(f"\n{line}", style="not bold dim")
            cell.append(" " * (7 if ratios else 1))
        cells.append(cell)
    return cells
