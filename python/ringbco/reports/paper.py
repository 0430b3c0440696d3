"""Tables and pictures for papers: files beside a page or a folder, each of which says what it is of."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.errors import UsageError
from ringbco.io import marks
from ringbco.io.atomic import check_output, replacing
from ringbco.reports import pictures
from ringbco.reports.drawing import check_room
from ringbco.reports.text_tables import MADE, TABLES, Sheet, TextCell
from ringbco.result.dates import zero_of
from ringbco.result.figures import MEASURED_HERE
from ringbco.result.sentences import of_runs
from ringbco.result.window import described

if TYPE_CHECKING:
    from ringbco.reports.series import Figure
    from ringbco.result.comparison import Comparison

PICTURES: Final = ("svg", "pdf", "png")
_TABLE: Final = "table"


def caption_of(comparison: Comparison) -> str:
    """Jobs, cluster, runs and version of what is compared."""
    outcomes = list(comparison.outcomes.values())

    def all_of(what: Callable[[Any], str]) -> str:
        return ", ".join(dict.fromkeys(what(outcome) for outcome in outcomes))

    jobs = all_of(lambda outcome: f"{outcome.summary['jobs']:,}")
    windows = all_of(lambda outcome: described(outcome.summary, zero_of(outcome)))
    of_those = f", {windows}," if windows.strip(", ") else ""
    trace = all_of(lambda outcome: Path(str(outcome.run.get("trace", {}).get("path", "?"))).name)
    cluster = all_of(lambda outcome: str(outcome.run.get("cluster", {}).get("name", "?")))
    (runs,) = of_runs(comparison.runs, comparison.variation) if comparison.runs > 1 else ["one run"]
    versions = all_of(lambda outcome: str(outcome.run.get("ringbco", {}).get("version", "?")))
    return f"{jobs} jobs of {trace}{of_those} on {cluster}; {runs}; ringbco {versions}."


def sheet_of(comparison: Comparison) -> Sheet:
    """One row per measure, one column per result; ranges behind the figures, verdicts below."""
    labels = list(comparison.outcomes)
    rows = []
    for measure, entries in comparison.display_rows.items():
        if measure.key in MEASURED_HERE:
            continue
        shown = [measure.brief(entry.value) for entry in entries]
        cells = [TextCell(measure.title)]
        for label, text, entry in zip(labels, shown, entries, strict=True):
            ranges = [f"({line})" for line in comparison.interval_lines(label, measure)]
            cells.append(TextCell(" ".join([text, *ranges]), entry.best))
        rows.append(cells)
    below = [*comparison.sentences(), *comparison.notes()]
    frame = comparison.frame.filter(~pl.col("measure").is_in(MEASURED_HERE))
    return Sheet(caption_of(comparison), ["", *labels], rows, below, frame)


def kinds_of(option: str, text: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """What a list such as "svg,pdf" names; UsageError for another name."""
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(","))) if text is not None else ()
    for name in names:
        if name not in known:
            raise UsageError(f"option {option}: {name!r}: expected one or more of {','.join(known)}")
    return names


class PaperFiles(NamedTuple):
    """The files that go beside `out`, as STEM-NAME.EXT. force: whether earlier ones of ours are replaced."""

    out: Path
    pictures: tuple[str, ...]
    tables: tuple[str, ...]
    force: bool

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return bool(self.pictures or self.tables)

    def _path(self, name: str, kind: str) -> Path:
        # A folder's name may have a dot in it.
        ending = self.out.suffix if self.out.suffix.lower() in (".html", ".htm") else ""
        return self.out.with_name(f"{self.out.name.removesuffix(ending)}-{name}.{kind}")

    def check(self) -> None:
        """Raises InputError where a file is in the way, before any work is done."""
        for kind in self.tables:
            check_output(self._path(_TABLE, kind), _MARKS[kind], force=self.force)
        for kind in self.pictures:
            stem, _, ending = self._path("*", kind).name.rpartition("*")
            for path in sorted(self.out.absolute().parent.glob(f"{glob.escape(stem)}*{ending}")):
                check_output(path, _MARKS[kind], force=self.force)

    def write(self, sheet: Sheet, figures: Sequence[Figure]) -> list[Path]:
        """Writes them, each whole or not at all, and returns the paths. Errors as `replacing`."""
        return [*self._tables(sheet), *self._pictures(figures, sheet.caption)]

    def _tables(self, sheet: Sheet) -> Iterator[Path]:
        for kind in self.tables:
            path = self._path(_TABLE, kind)
            with replacing(path, _MARKS[kind], force=self.force) as file:
                file.write(sheet.text(kind).encode())
            yield path

    def _pictures(self, figures: Sequence[Figure], caption: str) -> Iterator[Path]:
        for figure in figures:
            for kind in self.pictures:
                path = self._path(figure.name, kind)
                with replacing(path, _MARKS[kind], force=self.force) as file:
                    made = pictures.picture(figure, kind, caption)
                    file.write(marks.signed(made, "report") if kind == "png" else made)
                yield path


def _is_pdf(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data.startswith(b"%PDF") and data.endswith(pictures.AFTER_PDF)


def _begins(kind: str, start: str) -> marks.Mark:
    return marks.Mark(
        f"{kind} of ringbco's", lambda path: (marks.first_bytes(path) or b"").startswith(start.encode())
    )


_ALWAYS: Final = (
    ("measure", "value", "ratio", "best"),
    ("command", "trace", "cluster", "servers", "gpus", "error"),
)
"""The columns of comparisons and of sweeps with several runs, and of other sweeps."""
_MARKS: Final = {
    "tex": _begins("table", f"% {MADE}"),
    "md": _begins("table", f"<!-- {MADE} -->"),
    "csv": marks.Mark(
        "table of ringbco's",
        lambda path: any(marks.table("table", always).knows(path) for always in _ALWAYS),
    ),
    "svg": _begins("picture", pictures.BEFORE_SVG),
    "pdf": marks.Mark("picture of ringbco's", _is_pdf),
    "png": marks.picture("report"),
}


def paper_files(
    out: str | os.PathLike[str], figures: str | None, table: str | None, *, force: bool
) -> PaperFiles:
    """What two options ask for, checked: lists of kinds, such as "svg,pdf" and "tex"."""
    made = PaperFiles(
        Path(out), kinds_of("figures", figures, PICTURES), kinds_of("table", table, TABLES), force
    )
    made.check()
    if made.pictures:
        check_room()
    return made
