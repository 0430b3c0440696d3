"""docs/elastic.md: its findings follow from its own tables, and its example prints what it says."""

import re
from pathlib import Path

import polars as pl
import pytest

import elastic_table as table
from conftest import RunCli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "elastic.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_findings_are_what_the_tables_say() -> None:
    assert table.remade(TEXT) == TEXT, "run: make elastic-table"


def test_every_replay_is_in_the_tables() -> None:
    find = table.elastic_findings
    told = [(r.part, r.trace, r.policy, r.load) for r in find.rows(TEXT)]
    told += [(find.DEADLINES, d.trace, d.policy, d.load) for d in find.due(TEXT)]
    wanted = [(c.part, c.trace, c.policy, round(100 * c.load)) for c in table.cells(Path())]
    assert len(told) == len(set(told)) == len(wanted)
    assert set(told) == set(wanted)
    assert list(find.traces_of(TEXT)) == list(table.TRACES)


def test_what_is_said_by_hand_is_in_the_tables() -> None:
    find = table.elastic_findings
    jct = {(r.part, r.trace, r.policy, r.load): r.mean_jct for r in find.rows(TEXT)}
    small, _, large = table.TRACES

    def gain(trace: str, load: int) -> float:
        return jct[find.WHOLE, trace, "afs", load] / jct[find.WHOLE, trace, "srtf", load]

    # Idle GPUs are where resizing gains most, and small gangs gain most; on cluster06 little or nothing.
    for trace in table.TRACES:
        assert gain(trace, 50) < min(gain(trace, 90), gain(trace, 120))
    assert gain(small, 50) == min(gain(trace, 50) for trace in table.TRACES)
    resizing = [
        jct[find.WHOLE, large, p, load] / jct[find.WHOLE, large, "srtf", load]
        for p in table.RESIZING
        for load in (50, 90, 120)
    ]
    assert min(resizing) > 0.95
    # Noise scales help in a queue.
    for trace in table.TRACES:
        for load in (90, 120):
            assert jct[find.CALM, trace, "afs", load] > jct[find.WHOLE, trace, "afs", load]
    # About half of the jobs cannot meet their deadline on num_gpus.
    for d in find.due(TEXT):
        if d.policy == "edf, --admission":
            jobs = 195 if d.trace in table.FEW else find.traces_of(TEXT)[d.trace][0]
            assert 0.4 < d.refused / jobs < 0.55


def test_findings_follow_from_the_figures() -> None:
    find = table.elastic_findings
    found = {
        (c.trace, c.part, c.policy, c.load): ["40.0 %", "0", "9"]
        if c.part == find.DEADLINES
        else ["1,000", "5,000", "10"]
        for c in table.cells(Path())
    }
    first, second, third = table.TRACES
    found[first, find.WHOLE, "afs", 0.5] = ["750", "4,000", "200"]
    found[second, find.WHOLE, "afs", 1.2] = ["2,500", "6,000", "30"]
    found[third, find.WHOLE, "optimus", 0.9] = ["7,250", "5,000", "10"]
    found[third, find.WHOLE, "repack, exact", 1.2] = ["1,001", "5,000", "10"]
    found[first, find.WINDOW, "sia", 0.9] = ["1,100", "5,001", "77"]
    found[table.DUE[0], find.DEADLINES, "elasticflow", 0.9] = ["70.5 %", "300", "1,234"]
    page = table.filled(TEXT, {**find.marked(TEXT), **table.tables(found)})
    made = find.findings(page)
    gains, tail, queue, restarts, order, noise = made["findings"].split("\n")
    assert "at 50 % load 25 % less, the same, the same; at 90 % load the same" in gains
    assert "120 % load the same, 2.5 times as much, the same." in gains
    assert "in 1 of 9 cases" in tail
    assert "in 5 of 6 cases" in queue
    assert "loses 10 to 200 GPU-hours to pauses, `srtf` 10 to 10." in restarts
    assert f"the most is 200 on {first} at 50 % load. That is 0.4 % of" in restarts
    assert "1.0 to 7.2 times that of `srtf`" in order
    assert noise.endswith("is 60 % less to 33 % more.")
    srtf, *_, tail, lost = made["findings of windows"].split("\n")
    assert "at 90 % load 10 % more, the same, the same" in srtf
    assert "in 8 of 9 cases" in tail
    assert "`sia` loses 10 to 77 GPU-hours" in lost
    whole, *_, paper = made["findings of deadlines"].split("\n")
    assert "`elasticflow` meets 40.0, 70.5 and 40.0 % of the deadlines, `edf` 40.0, 40.0 and 40.0 %" in whole
    assert "9, 1,234 and 9 are late" in whole
    assert "the same in 1 of 9 cases" in paper
    assert paper.endswith("is ahead in 1.")


@pytest.mark.long
def test_the_picture_is_a_png() -> None:
    assert (PAGE.parent / table.PICTURE).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert table.picture(table.elastic_findings.rows(TEXT))[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.long
def test_the_example_prints_what_the_page_says(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    block = TEXT.split("## An example")[1].split("```")[1]
    printed = ""
    for line in block.strip().splitlines():
        if line.startswith("$ ringbco "):
            printed = run_cli(*line.split()[2:]).stdout
        elif line != "...":
            assert line.rstrip() in [one.rstrip() for one in printed.splitlines()], line
    stays = pl.read_parquet("afs/stays.parquet").filter(pl.col("job_id") == "helios-156")
    shown = stays.select("start_time", "end_time", "num_gpus", "num_servers", "began", "ended")
    told = [
        [cell.strip() for cell in row.split("┆")] for row in re.findall(r"^│ (\d.*) │$", TEXT, re.MULTILINE)
    ]
    assert len(told) == 5
    for row, said in zip(shown.rows(), told, strict=True):
        assert row[:4] == pytest.approx([float(cell) for cell in said[:4]])
        assert list(row[4:]) == said[4:]
