"""Result folders of any kind: audited, read and told by report and timeline, or refused in one line."""

from __future__ import annotations

import io
import json
import shutil
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import CASES, explained, fuzzed
from fuzz.damage import TEXTS, TOML_VALUES, VALUES, damaged_bytes, damaged_document, damaged_table
from ringbco import replay
from ringbco.audits import check_folder
from ringbco.io.toml import toml_text
from ringbco.reports.answer import answer
from ringbco.reports.diff_page import diff_page
from ringbco.reports.facts import facts, headline
from ringbco.reports.figures import chapters, charts_of
from ringbco.reports.perfetto import write_trace
from ringbco.reports.reading import default_title, read_results
from ringbco.reports.viewport import viewport
from ringbco.result.outcome import Outcome
from ringbco.result.tables import RESULT_FILES
from ringbco.run.loaded import read_result
from ringbco.trace.jobs import from_frame, write_jobs

JOBS: Final = pl.DataFrame(
    {
        "job_id": [f"j{row}" for row in range(8)],
        "submit_time": [0.0, 1.0, 1.0, 2.0, 30.0, 31.0, 40.0, 900.0],
        "num_gpus": [1, 6, 4, 2, 8, 1, 3, 2],
        "duration": [30.0, 60.0, 90.0, 45.0, 60.0, 10.0, 20.0, 5.0],
        "user": ["ann", "bob", "ann", "eve", "ann", "bob", None, "ann"],
        "vc": ["a", "a", "b", "b", "a", "a", "b", "b"],
        "status": ["Pass", "Failed", "Pass", "Pass", "Killed", "Pass", "Pass", "Pass"],
        "deadline": [100.0, None, 500.0, 90.0, None, 50.0, 200.0, 950.0],
    }
)
SHARES: Final = JOBS.with_columns(gpu_share=pl.when(pl.col("num_gpus") == 1).then(pl.lit(0.4)))
RUNS: Final = ("fifo", "sjf-bco", "srtf", "edf", "split", "slots", "without", "shares")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sound results of several kinds, and their job table."""
    folder = tmp_path_factory.mktemp("results")
    write_jobs(from_frame(JOBS), folder / "jobs.parquet")
    write_jobs(from_frame(SHARES), folder / "shares.parquet")
    for name in RUNS:
        table = jobs_of(folder / name)
        cluster = folder / "split.toml"
        cluster.write_text('[[servers]]\ngpus = 8\nvc = "a"\n[[servers]]\ncount = 2\ngpus = 4\nvc = "b"\n')
        options: dict[str, Any] = {
            "split": {"policy": "smallest"},
            "slots": {"policy": "fifo", "clock": "slot", "slot": 2.0},
            "without": {"policy": "fifo", "allocations": False},
            "edf": {"policy": "edf", "admission": True},
            "shares": {"policy": "fifo", "placement": "fgd"},
        }.get(name, {"policy": name})
        replay(table, cluster if name == "split" else "2x8", sample=100.0, **options).write(folder / name)
    return folder


def jobs_of(folder: Path) -> Path:
    """The job table of the result in a folder that ends in its name."""
    return folder.parent / ("shares.parquet" if folder.name.endswith("shares") else "jobs.parquet")


@cache
def written(folder: Path, name: str, file: str) -> bytes:
    return (folder / name / file).read_bytes()


@st.composite
def damage(draw: Callable[[Any], Any], files: dict[str, bytes]) -> dict[str, bytes | None]:
    """The files of a result, one or two of them damaged; None stands for a folder of that name."""
    made: dict[str, bytes | None] = dict(files)
    for _ in range(draw(st.integers(1, 2))):
        file = draw(st.sampled_from(sorted(files)))
        match draw(st.sampled_from(("inside", "inside", "inside", "inside", "bytes", "fate"))):
            case "inside" if file.endswith(".parquet"):
                table = draw(damaged_table(pq.read_table(io.BytesIO(files[file]))))
                out = io.BytesIO()
                try:
                    pq.write_table(table, out)
                except pa.ArrowNotImplementedError:
                    continue
                made[file] = out.getvalue()
            case "inside" if file == "summary.json":
                document = draw(damaged_document(json.loads(files[file]), (*VALUES, *TEXTS)))
                made[file] = json.dumps(document).encode("utf-8", "surrogatepass")
            case "inside":
                document = draw(damaged_document(tomllib.loads(files[file].decode()), (*TOML_VALUES, *TEXTS)))
                made[file] = toml_text(
                    document if isinstance(document, dict) else {"trace": document}
                ).encode()
            case "bytes":
                made[file] = draw(damaged_bytes(files[file]))
            case "fate":
                fate = draw(st.sampled_from(("gone", "empty", "folder", "swapped")))
                made.pop(file, None)
                if fate != "gone":
                    other = draw(st.sampled_from(sorted(files)))
                    made[file] = {"empty": b"", "folder": None, "swapped": files[other]}[fate]
    return made


def put(folder: Path, files: dict[str, bytes | None]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)
    return folder


def audit(folder: Path) -> None:
    report = explained(lambda: check_folder(folder, jobs_of(folder)))
    if report is not None:
        json.dumps(report.to_dict(), allow_nan=False)
        assert all(str(finding).isprintable() for finding in report.findings)


def report_texts(folder: Path) -> None:
    """What report tells of a result, all but the drawing."""
    results = explained(lambda: read_results([folder]))
    if results is not None:
        default_title(results.outcomes)
        facts(results.outcomes)
        headline(results)


def drawn(folder: Path) -> None:
    """The data of a report's charts."""
    results = explained(lambda: read_results([folder]))
    if results is not None:
        for figure in charts_of(chapters(results)):
            json.dumps(figure.chart.to_dict(), allow_nan=False)
        answer(results.best_first)


def traced(folder: Path) -> None:
    results = explained(lambda: read_results([folder]))
    for outcome in results.outcomes.values() if results else ():
        out = io.BytesIO()
        if explained(lambda: write_all(outcome, out)) is not None:  # noqa: B023
            json.loads(out.getvalue())


def differed(folder: Path) -> None:
    """A damaged result against the sound one."""
    sound = folder.with_name(folder.name.removeprefix("damaged-"))
    difference = explained(lambda: read_result(sound).diff(read_result(folder)))
    if difference is not None:
        json.dumps(difference.to_dict(), allow_nan=False)
        diff_page(difference, ("sound", "damaged"))


def storied(folder: Path) -> None:
    """The story of each job of a damaged result."""
    message = explained(lambda: read_result(folder))
    for job in () if message is None else JOBS["job_id"]:
        story = explained(lambda: message.why(job, jobs_of(folder)))  # noqa: B023
        if story is not None:
            json.dumps(story.to_dict(), allow_nan=False)


def write_all(outcome: Outcome, out: io.BytesIO) -> int:
    return write_trace(outcome, viewport(outcome, None, None, None), out, compress=False)


def cases(sound: Path, use: Callable[[Path], Any], many: int = CASES) -> None:
    @settings(fuzzed, max_examples=many)
    @given(data=st.data())
    def case(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(RUNS))
        files = {
            file: written(sound, name, file)
            for file in sorted(RESULT_FILES)
            if (sound / name / file).is_file()
        }
        use(put(sound / f"damaged-{name}", data.draw(damage(files))))

    case()


def test_audit(sound: Path) -> None:
    cases(sound, audit)


def test_report(sound: Path) -> None:
    cases(sound, report_texts)


def test_charts(sound: Path) -> None:
    cases(sound, drawn, CASES // 4)  # charts take long; who refuses them is `told` as well


def test_diff(sound: Path) -> None:
    cases(sound, differed, CASES // 4)


def test_stories(sound: Path) -> None:
    cases(sound, storied, CASES // 4)


def test_timeline(sound: Path) -> None:
    cases(sound, traced)
