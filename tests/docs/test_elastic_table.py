"""docs/elastic.md: its findings are what its own tables say, and its example prints what it says."""

import re
from pathlib import Path

import polars as pl
import pytest

import page_tables
import page_traces as table
from conftest import RunCli
from findings import change, changes, finding, numbers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "elastic.md"
TEXT = PAGE.read_text(encoding="utf-8")


MARKED = page_tables.marked(TEXT)
TOLD = {
    (part, *of): value
    for part in table.ELASTIC_TABLES
    for of, value in table.told_elastic(MARKED[part]).items()
}
LOADS = sorted({load for *_, load in TOLD})
QUEUED = LOADS[1:]
RESIZING = ("optimus", "elastic-srtf", "afs")
TRACES = list(table.TRACES)
WHOLE, CALM, WINDOW, DEADLINES = table.WHOLE, table.CALM, table.WINDOW, table.DEADLINES
JCT, TAIL, LOST = table.METRICS
WHOLES, WINDOWS = TEXT.split("## With sia")
PUBLISHED = (72.8, 11.8)  # per cent of deadlines met by elasticflow and edf: Gu et al., ASPLOS 2023


def works() -> dict[str, tuple[float, float]]:
    """Jobs and GPU-hours of work of each trace."""
    rows = page_tables.rows(MARKED["traces"])
    number = page_tables.number
    return {of["trace"]: (number(of["jobs"]), number(of["work, GPU-hours"])) for _, _, of in rows}


def ratios(part: str, policy: str, other: str, load: int, metric: str = JCT) -> list[float]:
    """A policy's figure over another's, trace by trace."""
    return [TOLD[part, t, policy, metric, load] / TOLD[part, t, other, metric, load] for t in TRACES]


def least(part: str, policy: str, metric: str, loads: list[int]) -> int:
    """In how many cases nobody has less."""
    policies = {p for where, _, p, *_ in TOLD if where == part}
    return sum(
        TOLD[part, t, policy, metric, load] == min(TOLD[part, t, p, metric, load] for p in policies)
        for t in TRACES
        for load in loads
    )


def lost(policy: str) -> list[float]:
    """The least and the most GPU-hours that a policy loses to pauses."""
    own = [TOLD[WHOLE, t, policy, LOST, load] for t in TRACES for load in LOADS]
    return [min(own), max(own)]


def after(title: str, page: str = TEXT) -> str:
    """A finding without its title."""
    return finding(page, title).split("**", 2)[2]


def test_every_replay_is_in_the_tables() -> None:
    wanted = {
        (part, trace, policy, metric, round(100 * load))
        for part, (policies, traces, metrics) in table.ELASTIC_TABLES.items()
        for trace in traces
        for policy in policies
        for metric in metrics
        for load in table.AT
    }
    assert set(TOLD) == wanted
    assert list(works()) == TRACES


@pytest.mark.parametrize(
    ("title", "part", "policy", "other"),
    [
        ("What resizing gains.", WHOLE, "afs", "srtf"),
        ("`sia` against `srtf`", WINDOW, "sia", "srtf"),
        ("`afs` against `srtf`", WINDOW, "afs", "srtf"),
    ],
)
def test_completion_times_side_by_side(title: str, part: str, policy: str, other: str) -> None:
    text = after(title)
    first = text.index(f"at {LOADS[0]} % load")
    entries = [text[first:].split(f"at {load} % load ")[1].split(";")[0] for load in LOADS]
    assert [changes(one) for one in entries] == [
        [change(ratio) for ratio in ratios(part, policy, other, load)] for load in LOADS
    ]


def test_the_findings_of_whole_traces() -> None:
    cases = len(TRACES) * len(LOADS)
    tails = sum(ratio < 1 for load in LOADS for ratio in ratios(WHOLE, "afs", "srtf", load, TAIL))
    assert numbers(after("The tail.", WHOLES)) == [tails, cases]
    first = [LOADS[0], least(WHOLE, table.EXACT, JCT, QUEUED), len(TRACES) * len(QUEUED)]
    assert numbers(after("Once there is a queue")) == first
    parts = {
        (t, load): 100 * TOLD[WHOLE, t, "afs", LOST, load] / works()[t][1] for t in TRACES for load in LOADS
    }
    worst = max(parts, key=parts.__getitem__)
    restarts = after("Restarts.", WHOLES)
    most = [TOLD[WHOLE, worst[0], "afs", LOST, worst[1]], worst[1], round(parts[worst], 1)]
    assert numbers(restarts) == [*lost("afs"), *lost("srtf"), *most]
    assert f"on {worst[0]} at" in restarts
    late, ordered = (
        [ratio for load in QUEUED for ratio in ratios(WHOLE, policy, "srtf", load)]
        for policy in ("optimus", "elastic-srtf")
    )
    span = [round(min(late), 1), round(max(late), 1), round(min(ordered), 2), round(max(ordered), 2)]
    assert numbers(after("The order counts")) == [LOADS[0], *span]
    noisy = [
        TOLD[CALM, t, "afs", JCT, load] / TOLD[WHOLE, t, "afs", JCT, load] for t in TRACES for load in LOADS
    ]
    assert changes(after("Noise scales.")) == [change(min(noisy)), change(max(noisy))]


def test_the_findings_of_windows() -> None:
    assert numbers(after("The tail.", WINDOWS)) == [
        least(WINDOW, "sia", TAIL, LOADS),
        len(TRACES) * len(LOADS),
    ]


def test_the_findings_of_deadlines() -> None:
    flow, edf, admitted = "elasticflow", "edf", "edf, --admission"

    def met(trace: str, policy: str) -> list[float]:
        return [TOLD[DEADLINES, trace, policy, "deadlines met", load] for load in LOADS]

    trace = table.DUE[0]
    late = [TOLD[DEADLINES, trace, flow, "late", load] for load in LOADS]
    of = [number for policy in (flow, edf, admitted) for number in met(trace, policy)]
    assert numbers(after(f"{trace}**")) == [*LOADS, *of, *late]
    pairs = [
        [f > other for t in table.DUE for f, other in zip(met(t, flow), met(t, policy), strict=True)]
        for policy in (edf, admitted)
    ]
    value = [*PUBLISHED, 195, 128, sum(pairs[0]), len(pairs[0]), sum(pairs[1])]
    assert numbers(after("The paper")) == value


def test_what_is_said_by_hand_is_in_the_tables() -> None:
    small = TRACES[0]
    gains = {load: dict(zip(TRACES, ratios(WHOLE, "afs", "srtf", load), strict=True)) for load in LOADS}
    # Idle GPUs are where resizing gains most, and small gangs gain most; on cluster06 little or nothing.
    for trace in TRACES:
        assert gains[50][trace] < min(gains[90][trace], gains[120][trace])
    assert gains[50][small] == min(gains[50].values())
    assert min(ratios(WHOLE, p, "srtf", load)[2] for p in RESIZING for load in LOADS) > 0.95
    # Noise scales help in a queue.
    for trace in TRACES:
        for load in QUEUED:
            assert TOLD[CALM, trace, "afs", JCT, load] > TOLD[WHOLE, trace, "afs", JCT, load]
    # About half of the jobs cannot meet their deadline on num_gpus.
    for trace in table.DUE:
        jobs = 195 if trace in table.FEW else works()[trace][0]
        for load in LOADS:
            assert 0.4 < TOLD[DEADLINES, trace, "edf, --admission", "refused", load] / jobs < 0.55


@pytest.mark.long
def test_the_picture_is_a_png() -> None:
    assert (PAGE.parent / "images/elastic.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert table.elastic_picture(MARKED[WINDOW])[:8] == b"\x89PNG\r\n\x1a\n"


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
    entries = [
        [cell.strip() for cell in row.split("┆")] for row in re.findall(r"^│ (\d.*) │$", TEXT, re.MULTILINE)
    ]
    assert len(entries) == 5
    for row, said in zip(shown.rows(), entries, strict=True):
        assert row[:4] == pytest.approx([float(cell) for cell in said[:4]])
        assert list(row[4:]) == said[4:]
