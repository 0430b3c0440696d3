"""Public names that changed work for one more version, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco as rb
from ringbco.deprecation import GONE_IN
from ringbco.errors import InputError
from ringbco.result.certainty import Held
from ringbco.sweeps.run import SweepResult
from ringbco.trace.moved import instants, moved
from ringbco.trace.outages import Outages
from ringbco.trace.services import Services
from ringbco.trace.side_table import ReadContext


def deprecated(call: Callable[[], Any], new: str) -> Any:
    """What the call gives, once it has warned of the new name and of the version without the old one."""
    with pytest.warns(DeprecationWarning, match="is called") as seen:
        found = call()
    text = str(seen[0].message)
    assert f"is called {new} now" in text
    assert f"goes in ringbco {GONE_IN}" in text
    assert seen[0].filename == __file__, "the warning is of the caller's line"
    return found


JOBS = rb.generate("philly", 40, 3, gpus=32)
TYPED = rb.Cluster([4, 4], server_cpu_memory=[(1, 2), (3, 4)])
OUTAGES = Outages.read(
    pl.DataFrame({"server": [0], "down_at": [1.0], "up_at": [2.0]}), ReadContext(servers=1)
)
MOVED = moved(JOBS, instants(JOBS.frame["submit_time"].to_numpy()), 5)
SERVICES = Services.read(
    pl.DataFrame({"service": ["s", "s"], "time": [0.0, 9.0], "replicas": [1, 2], "gpus_per_replica": [4, 4]})
)
COMPARED = rb.compare(JOBS, "4x8", ["fifo", "sjf"], seeds=2)
MEASURE = next(measure for measure in COMPARED.rows if measure.key == "mean_jct")
HELD = Held(0.9, None, 6, None, (0.8, 0.9, 1.1, 0.9, 0.9, 0.9))
PACKED = rb.pack(JOBS, "4x8")
STORY = COMPARED["fifo"].why(COMPARED["fifo"].jobs["job_id"][0])
DIFF = COMPARED["fifo"].diff(COMPARED["sjf"])
BAD = InputError("a number", file="a.csv", row=1)
SWEPT = SweepResult(pl.DataFrame(), Path(), 0, 0)
CASES: dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]] = {
    "Cluster.server_beside": (
        "server_cpu_memory",
        lambda: TYPED.server_beside,
        lambda: TYPED.server_cpu_memory,
    ),
    "Cluster(server_beside=)": (
        "server_cpu_memory",
        lambda: rb.Cluster([4, 4], server_beside=[(1, 2), (3, 4)]),
        lambda: TYPED,
    ),
    "Cluster.told": ("to_dict()", lambda: TYPED.told, TYPED.to_dict),
    "Cluster.character": (
        "description",
        lambda: TYPED.character,
        lambda: "servers of 4 GPUs, default network",
    ),
    "Outcome.replayed": ("job_table", lambda: COMPARED["fifo"].replayed, lambda: COMPARED["fifo"].job_table),
    "Outcome.single_figures": (
        "scalar_summary",
        lambda: COMPARED["fifo"].single_figures(),  # noqa: PLW0108 - the name warns
        COMPARED["fifo"].scalar_summary,
    ),
    "Packing.at_the_end": ("allocated_at_end", lambda: PACKED.at_the_end, lambda: PACKED.mean[-1]),
    "JobTable.told": ("identity", lambda: JOBS.told, lambda: JOBS.identity),
    "Comparison.repeated": (
        "summaries_by_run",
        lambda: COMPARED.repeated,
        lambda: COMPARED.summaries_by_run,
    ),
    "Comparison(repeated=)": (
        "summaries_by_run",
        lambda: rb.Comparison(COMPARED.outcomes, repeated={"sjf": []}).summaries_by_run,
        lambda: {"sjf": []},
    ),
    "Comparison.over": ("variation", lambda: COMPARED.over, lambda: COMPARED.variation),
    "Comparison(over=)": (
        "variation",
        lambda: rb.Comparison(COMPARED.outcomes, over=COMPARED.variation).variation,
        lambda: COMPARED.variation,
    ),
    "Comparison.against": ("baseline_label", lambda: COMPARED.against, lambda: COMPARED.baseline_label),
    "Comparison.shown": ("display_rows", lambda: COMPARED.shown, lambda: COMPARED.display_rows),
    "Comparison.unlike": ("not_comparable", lambda: COMPARED.unlike, lambda: COMPARED.not_comparable),
    "Comparison.beneath": (
        "interval_lines",
        lambda: COMPARED.beneath("sjf", MEASURE),
        lambda: COMPARED.interval_lines("sjf", MEASURE),
    ),
    "Comparison.held": (
        "difference",
        lambda: COMPARED.held("sjf", "mean_jct"),
        lambda: COMPARED.difference("sjf", "mean_jct"),
    ),
    "Held.known": ("part_ratios", lambda: HELD.known, lambda: [0.8, 0.9, 0.9, 0.9, 0.9, 1.1]),
    "Held.ends": ("parts_range", lambda: HELD.ends, lambda: (0.8, 1.1)),
    "Held.agreeing": ("parts_agreeing", lambda: HELD.agreeing, lambda: 5),
    "Figure.told": ("shown_in", lambda: MEASURE.told, lambda: "headline"),
    "Story.as_dict": ("to_dict", lambda: STORY.as_dict(), STORY.to_dict),  # noqa: PLW0108 - the name warns
    "Fact.told": ("figures", lambda: STORY.facts[0].told, lambda: STORY.facts[0].figures),
    "Diff.most": ("most_changed", lambda: DIFF.most("slower"), lambda: DIFF.most_changed("slower")),
    "Plots.sizes": (
        "jct_by_size",
        lambda: COMPARED.plot.sizes().to_dict(),
        lambda: COMPARED.plot.jct_by_size().to_dict(),
    ),
    "InputError.but": ("replace", lambda: str(BAD.but(row=2)), lambda: str(BAD.replace(row=2))),
    "SweepResult.over": ("by_point", lambda: SWEPT.over, lambda: None),
    "JobTable.moved": ("moved_from", lambda: MOVED.moved, lambda: (JOBS, 5)),
    "JobTable(moved=)": (
        "moved_from",
        lambda: rb.JobTable(JOBS.frame, moved=(JOBS, 5)).moved_from,
        lambda: (JOBS, 5),
    ),
    "Services.largest": ("peak_gpus", lambda: SERVICES.largest, lambda: 8),
    "Services.gpus": (
        "gpus_per_replica",
        lambda: list(SERVICES.gpus),
        lambda: [4],
    ),
    "Outages.told": ("identity", OUTAGES.told, lambda: OUTAGES.identity),
}


@pytest.mark.parametrize("name", CASES)
def test_an_old_name_warns_and_gives_the_same(name: str) -> None:
    new, old, now = CASES[name]
    assert deprecated(old, new) == now()


STATE = {
    "left": "remaining_iterations",
    "remaining": "remaining_time",
    "guest": "over_quota",
    "room": "free_shares",
    "places": "allocations",
}


def test_the_old_names_of_a_state() -> None:
    frame = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [1, 2], "duration": [9.0, 5.0]}
    ).with_columns(gpu_share=pl.Series([0.5, None]))
    run = rb.Simulation(frame, "1x4", placement="best-fit")
    assert run.advance()
    run.start([0, 1])
    for old, new in STATE.items():
        found = deprecated(lambda old=old: getattr(run.state, old), new)  # type: ignore[misc]
        np.testing.assert_equal(found, getattr(run.state, new))
    assert deprecated(lambda: run.state.parts(1), "allocation") == run.state.allocation(1) == [(0, 2)]
    with pytest.raises(AttributeError, match="the state has no 'rooms'"):
        _ = run.state.rooms


class Blind(rb.RankPolicy):
    """Reads by its old name what no policy may know."""

    def rank(self, state: Any, rows: Any) -> Any:
        return state.left[rows]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_name_tells_no_more_than_the_new_one() -> None:
    with pytest.raises(AttributeError, match="remaining_iterations is not known to a scheduler"):
        rb.replay(JOBS, "4x8", Blind())


def test_the_old_names_of_write(tmp_path: Path) -> None:
    deprecated(lambda: OUTAGES.save(tmp_path / "old.csv"), "write")
    OUTAGES.write(tmp_path / "new.csv")
    assert (tmp_path / "old.csv").read_bytes() == (tmp_path / "new.csv").read_bytes()


def test_the_old_parameters_of_a_sweep(tmp_path: Path) -> None:
    runs: list[tuple[int, int, str]] = []
    spec = {"base": {"trace": JOBS, "cluster": "4x8", "policy": "fifo"}}
    found = deprecated(
        lambda: rb.sweep(spec, tmp_path, threads=1, began=lambda *run: runs.append(run)), "on_run_start"
    )
    assert (found.done, runs) == (1, [(1, 1, "fifo")])


def test_the_old_parameters_of_the_environment() -> None:
    gym = pytest.importorskip("ringbco.gym")
    old = deprecated(lambda: gym.ReplayEnv(JOBS, "4x8", window=7, visible_jobs=3), "episode_jobs")
    new = deprecated(lambda: gym.ReplayEnv(JOBS, "4x8", episode_jobs=7, shown=3), "visible_jobs")
    seen = [env.reset(seed=1)[0]["jobs"].tolist() for env in (old, new)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


def test_no_old_name_shows_among_the_charts() -> None:
    assert "sizes" not in repr(COMPARED.plot)
    assert ".jct_by_size()" in repr(COMPARED.plot)


def test_both_names_of_a_parameter_are_refused() -> None:
    with pytest.raises(TypeError, match="expected one of them, server_cpu_memory"):
        rb.Cluster([4], server_beside=[(1, 2)], server_cpu_memory=[(1, 2)])
