"""Tables and pictures for papers, beside a page or a folder."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke
from ringbco import compare, report, sweep
from ringbco.errors import InputError, UsageError
from ringbco.reports.paper import kinds_of, paper_files
from ringbco.reports.text_tables import Sheet, TextCell
from ringbco.result.comparison import Comparison
from ringbco.run.seeds import Seeds


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    rows = range(30)
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in rows],
            "submit_time": [20.0 * (row // 3) for row in rows],
            "num_gpus": [1 + row % 6 for row in rows],
            "duration": [50.0 + 31 * row % 400 for row in rows],
        }
    )
    return compare(jobs, "2x4", ["rand", "sjf"])


def test_latex_has_a_row_a_measure_and_says_what_it_is_of(comparison: Comparison) -> None:
    text = comparison.table("tex")
    assert text.startswith("% made by ringbco\n")
    assert text.count("{") == text.count("}")
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    runs = (
        "6 runs: submissions moved by under a minute, unknown models drawn anew, random placement drawn anew"
    )
    of = rf"30 jobs of \textless{{}}frame\textgreater{{}} on 2x4; {runs}"
    assert caption == f"{of}; ringbco {ringbco.__version__}."
    body = text.split(r"\hline")[2].strip().splitlines()
    shown = [measure.title for measure in comparison.display_rows if measure.key != "engine_seconds"]
    assert [line.split(" & ")[0] for line in body] == shown
    assert all(line.endswith(r" \\") and line.count(" & ") == 2 for line in body)
    for line in comparison.sentences():
        assert rf"\par {line.replace('%', chr(92) + '%')}" in text


def test_markdown_and_csv_hold_the_same(comparison: Comparison) -> None:
    lines = comparison.table("md").splitlines()
    assert lines[0] == "<!-- made by ringbco -->"
    assert lines[3] == "|  | rand | sjf |"
    mean = next(measure for measure in comparison.display_rows if measure.key == "mean_jct")
    row = next(line for line in lines if line.startswith("| mean completion time |"))
    for label in ("rand", "sjf"):
        figure = comparison.figure(label, "mean_jct")
        assert figure.interval is not None
        assert comparison.interval_lines(label, mean)[0] in row
    read = list(csv.DictReader(io.StringIO(comparison.table("csv"))))
    assert {one["measure"] for one in read} == {one.key for one in comparison.rows} - {"engine_seconds"}
    own = next(one for one in read if (one["measure"], one["policy"]) == ("mean_jct", "sjf"))
    figure = comparison.figure("sjf", "mean_jct")
    assert float(own["value"]) == figure.value


def test_what_latex_and_markdown_read_as_their_own_is_escaped() -> None:
    sheet = Sheet(
        "a_b 5 % & #1", ["", "x|y"], [[TextCell("~^\\{}$"), TextCell("1", best=True)]], [], pl.DataFrame()
    )
    tex = sheet.text("tex")
    assert r"\caption{a\_b 5 \% \& \#1}" in tex
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}\$ & \textbf{1} \\" in tex
    assert r"|  | x\|y |" in sheet.text("md")
    assert "| **1** |" in sheet.text("md")


def test_unknown_kinds_are_refused(comparison: Comparison) -> None:
    with pytest.raises(UsageError, match="table: 'doc': expected one of tex, csv, md"):
        comparison.table("doc")
    with pytest.raises(UsageError, match="figures: 'gif': expected one or more of svg,pdf,png"):
        kinds_of("figures", "svg,gif", ("svg", "pdf", "png"))


def test_files_stand_beside_the_page_and_only_ours_are_replaced(
    comparison: Comparison, tmp_path: Path
) -> None:
    page = tmp_path / "cmp.v1.html"
    written = report(comparison, page, figures="svg,pdf,png", table="tex,csv,md")
    names = {path.name for path in written.files}
    assert names == {path.name for path in tmp_path.iterdir()} - {page.name}
    assert len(names) == 3 * written.charts + 3
    assert {"cmp.v1-table.tex", "cmp.v1-jct.svg", "cmp.v1-jct.pdf", "cmp.v1-jct.png"} <= names
    assert "6 runs: submissions" in (tmp_path / "cmp.v1-jct.svg").read_text().replace("\n", " ")
    assert (tmp_path / "cmp.v1-jct.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"cmp\.v1-table\.tex: already exists"):
        paper_files(page, None, "tex", force=False)
    with pytest.raises(InputError, match="already exists"):
        paper_files(page, "pdf", None, force=False)
    report(comparison, page, figures="svg,pdf,png", table="tex,csv,md", force=True)
    for name in ("cmp.v1-table.tex", "cmp.v1-table.csv", "cmp.v1-table.md", "cmp.v1-x.svg", "cmp.v1-x.pdf"):
        (tmp_path / name).write_text("somebody's own")
        kind = name.rpartition(".")[2]
        figures, table = (kind, None) if kind in ("svg", "pdf") else (None, kind)
        with pytest.raises(InputError, match="--force does not replace it"):
            report(comparison, page, figures=figures, table=table, force=True)
        assert (tmp_path / name).read_text() == "somebody's own"


def test_a_sweep_has_a_table_too(small_jobs: Path, tmp_path: Path) -> None:
    spec = {"base": {"trace": str(small_jobs), "cluster": "4x2"}, "grid": {"policy": ["fifo", "rand"]}}
    sweep(spec, tmp_path / "s", seeds=Seeds(2))
    for force in (False, True):  # the second time what is there is known as ours
        report(tmp_path / "s", tmp_path / "s.html", table="tex,csv", figures="svg", force=force)
    text = (tmp_path / "s-table.tex").read_text()
    assert "2 runs: submissions" in text
    assert "policy & mean completion time" in text
    frame = pl.read_csv(tmp_path / "s-table.csv")
    assert frame["measure"].to_list() == pl.read_parquet(tmp_path / "s/seeds.parquet")["measure"].to_list()
    assert (tmp_path / "s-policy-mean-jct.svg").is_file()


def test_the_commands(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    wanted = ("--table", "tex", "--figures", "svg")
    given = (small_jobs, "--cluster", "4x2", "--policy", "fifo", "--policy", "sjf")
    done = invoke("compare", *given, "-o", "cmp", *wanted, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "cmp-table.tex").is_file()
    assert (tmp_path / "cmp-jct.svg").is_file()
    refused = invoke("compare", *given, "-o", "cmp2", "--table", "docx")
    assert refused.returncode == 2
    assert "option table: 'docx'" in refused.stderr
    assert not (tmp_path / "cmp2").exists()
    (tmp_path / "s.toml").write_text(
        f'[base]\ntrace = "{small_jobs}"\ncluster = "4x2"\n[grid]\npolicy = ["fifo", "sjf"]\n'
    )
    for _ in range(2):
        done = invoke("sweep", "s.toml", "-o", "s", *wanted)
        assert (done.returncode, done.stderr) == (0, "")
        assert "s-table.tex" in done.stdout
