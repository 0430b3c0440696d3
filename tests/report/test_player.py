"""The player's data: who holds GPUs at an instant, and who waits, is there, whatever meets in the run."""

from __future__ import annotations

import base64
import json
import re
import zlib
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.run import meet
from core_run import CASES
from frames import busy_jobs, rows_table
from ringbco.errors import InputError, UsageError
from ringbco.reports import player as module
from ringbco.reports.cells import named
from ringbco.reports.player import play, player
from ringbco.reports.tones import COLOURS, looks, ranked, tone_name
from ringbco.reports.viewport import viewport
from ringbco.result.folder import cluster_of
from ringbco.result.outcome import Outcome
from ringbco.trace.clock import first_instant
from ringbco.trace.jobs import from_frame

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

CHUNK = 25
DRAWN = max(CHUNK, CASES // 6)
KINDS = {1: "<u1", 2: "<u2", 4: "<u4", -4: "<f4"}
LAST = 2**32 - 1


def inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def columns(table: dict[str, Any]) -> dict[str, np.ndarray]:
    """As the page's script unpacks them."""
    data, offset, result = inflated(table["bytes"]), 0, {}
    for name, kind in table["columns"]:
        result[name] = np.frombuffer(data, KINDS[kind], table["rows"], offset)
        offset += -(-result[name].nbytes // 4) * 4
    assert offset == len(data)
    return result


class Page:
    """What the page tells of one result at an instant."""

    def __init__(self, told: dict[str, Any], result: int = 0) -> None:
        scene = told["results"][result]
        self.told, self.first, self.last = scene, told["first"], told["last"]
        self.ids, self.users, self.who, self.causes = json.loads(inflated(scene["names"]))
        self.jobs, self.stays, self.held, self.gone = (
            columns(scene[name]) for name in ("jobs", "stays", "held", "gone")
        )

    def tick(self, time: float) -> int:
        return round((time - self.first) / (self.last - self.first) * LAST)

    def holders(self, time: float) -> list[tuple[str, str, int]]:
        """(server, name, GPUs) of all that hold some, sorted."""
        stay, tick = self.held["stay"], self.tick(time)
        now = (self.stays["start"][stay] <= tick) & (tick < self.stays["end"][stay])
        names = [self.ids[job] for job in self.stays["job"][stay[now]]]
        servers = np.asarray(self.told["servers"]["name"], str)[self.held["server"][now]]
        return sorted(zip(servers.tolist(), names, self.held["gpus"][now].tolist(), strict=True))

    def waiting(self, time: float) -> list[str]:
        tick = self.tick(time)
        now = (self.stays["since"] <= tick) & (tick < self.stays["start"])
        return sorted(self.ids[job] for job in self.stays["job"][now])


def true_holders(outcome: Outcome, time: float) -> list[tuple[str, str, int]]:
    """The same, of the result's tables."""
    tables = [(outcome.allocations, "job_id")]
    if outcome.replicas is not None:
        tables.append((outcome.replicas, "service"))
    rows: list[tuple[str, str, int]] = []
    labels = cluster_of(outcome.run).server_labels
    for table, name in tables:
        assert table is not None
        now = table.filter(pl.col("start_time") <= time, pl.col("end_time") > time)
        for server, who, gpus in now.select("server", name, "num_gpus").iter_rows():
            rows.append((labels[server], who, gpus))
    return sorted(rows)


def true_waiting(outcome: Outcome, time: float) -> list[str]:
    """Jobs between their submission, or a stay's end and a pause at a rung, and the next stay."""
    options = outcome.run.get("options", {})
    waits = []
    submitted = dict(outcome.jobs.select("job_id", "submit_time").rows())
    for (job,), own in outcome.stays.group_by("job_id", maintain_order=True):
        if job not in submitted:
            continue
        since = float(first_instant(np.array([submitted[job]]), options)[0])
        for start, end, paused in own.select("start_time", "end_time", "paused_at_rung").rows():
            if since + paused <= time < start:
                waits.append(job)
            since = end
    return sorted(waits)


@pytest.mark.parametrize("chunk", range(-(-DRAWN // CHUNK)))
def test_every_instant_is_that_of_the_result(chunk: int) -> None:
    seen = 0
    for seed in range(CHUNK * chunk, min(DRAWN, CHUNK * (chunk + 1))):
        outcome = meet(seed, check=False).seen.outcome
        if outcome is None or outcome.allocations is None:
            continue
        told, note = player({"one": outcome})
        page, rng = Page(told), Random(seed)
        assert note == ""
        known = set(outcome.jobs["job_id"])
        edges = np.unique(
            np.concatenate([outcome.allocations["start_time"], outcome.allocations["end_time"]])
        )
        middles = ((edges[1:] + edges[:-1]) / 2)[np.diff(edges) > (told["last"] - told["first"]) * 1e-8]
        for time in rng.sample(middles.tolist(), min(8, middles.size)):
            seen += 1
            assert page.holders(time) == true_holders(outcome, time), (seed, time)
            assert [job for job in page.waiting(time) if job in known] == true_waiting(outcome, time), seed
    assert seen > 40


def test_what_is_told_of_a_stay() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b", "c"], "submit_time": [0.0, 5.0, 10.0], "num_gpus": [4, 2, 4],
         "duration": [100.0, 50.0, 10.0], "user": ["u", None, "v"]}
    )  # fmt: skip
    outcome = ringbco.replay(jobs, "1x4", policy="srtf", model="fixed")
    told, _ = player({"srtf": outcome})
    page = Page(told)
    assert (page.ids, page.users) == (["a", "b", "c"], ["u", "v"])
    assert page.jobs["user"].tolist() == [1, 0, 2]
    ended = [told["results"][0]["ended"][code] for code in page.stays["ended"]]
    assert dict(zip([page.ids[job] for job in page.stays["job"]], ended, strict=False))["c"] == "done"
    assert "preempted" in ended
    assert page.stays["by"].max() == 0  # a ranking preempts, no job
    waits = page.stays["wait_gpus"] + page.stays["wait_fragmented"] + page.stays["wait_behind"]
    assert waits.sum() == pytest.approx(outcome.jobs["waited"].sum())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"policy": "fifo"}, "in the order of fifo"),
        ({"policy": "sjf"}, "in the order of sjf"),
        ({"policy": "srtf"}, "by remaining run time, shortest first"),
        ({"policy": "gittins"}, "longest wait first"),
    ],
)
def test_the_queue_is_in_the_order_of_the_policy(given: dict[str, Any], told: str) -> None:
    jobs = rows_table(
        "submit_time num_gpus duration",
        [(0.0, 2, 100.0), (1.0, 2, 90.0), (2.0, 2, 300.0), (3.0, 2, 50.0), (4.0, 2, 200.0), (9.0, 2, 20.0)],
    )
    outcome = ringbco.replay(jobs, "1x2", model="fixed", **given)
    page = Page(player({"one": outcome})[0])
    assert page.told["order"] == told
    for time in outcome.jobs["start_time"].unique().sort().to_list():
        # Among those that waited just before one starts, it is the first.
        waiting = (page.stays["since"] < page.tick(time)) & (page.tick(time) <= page.stays["start"])
        starts = waiting & (page.stays["start"] == page.tick(time))
        if given["policy"] != "gittins" and starts.any():
            assert page.stays["rank"][waiting].min() == page.stays["rank"][starts].min(), time


@pytest.mark.parametrize(
    ("begin", "epoch", "zero"),
    [
        (0.0, None, None),
        (1_772_409_600.0, None, 0.0),  # Unix seconds
        (50.0, "2026-03-02T08:00:00+08:00", 1_772_438_400_000.0),  # on its own wall clock
        (1e13, "2026-03-02T08:00:00", None),  # beyond the calendar
    ],
)
def test_the_page_knows_its_dates(
    begin: float, epoch: str | None, zero: float | None, tmp_path: Path
) -> None:
    jobs = rows_table("submit_time num_gpus duration", [(begin, 2, 600.0), (begin + 60.0, 2, 600.0)])
    table = from_frame(jobs, metadata={} if epoch is None else {"ringbco.epoch": epoch})
    outcome = ringbco.replay(table, "1x2", policy="fifo", model="fixed")
    told, _ = player({"fifo": outcome})
    assert (told["zero"], told["submitted"]) == (zero, begin + 60.0)
    about = play(outcome, tmp_path / "play.html").path.read_text(encoding="utf-8")
    dates = {
        None: '<p class="soft">2 jobs, 2 GPUs, 20.0 min.</p>',
        0.0: "20.0 min from 2026-03-02 00:00:00 to 2026-03-02 00:20:00, UTC.",
        1_772_438_400_000.0: "20.0 min from 2026-03-02 08:00:50 to 2026-03-02 08:20:50, UTC+08:00.",
    }
    assert dates[zero] in about


def test_results_of_other_clocks_have_no_dates() -> None:
    jobs = rows_table("submit_time num_gpus duration", [(1.0, 1, 5.0)])
    outcomes = {
        name: ringbco.replay(from_frame(jobs, metadata={"ringbco.epoch": epoch}), "1x2", policy="fifo")
        for name, epoch in (("a", "2026-03-02T00:00:00"), ("b", "2026-03-03T00:00:00"))
    }
    assert player({"a": outcomes["a"]})[0]["zero"] is not None
    assert player(outcomes)[0]["zero"] is None


def test_outages_and_idle_servers_are_there() -> None:
    outages = pl.DataFrame({"server": [1], "down_at": [10.0], "up_at": [30.0], "cause": ["power"]})
    outcome = ringbco.replay(busy_jobs(), "4x4", policy="fifo", outages=outages)
    page = Page(player({"fifo": outcome}, servers="1,3")[0])
    assert page.told["servers"]["name"] == [1, 3]
    assert page.gone["server"].tolist() == [0]
    assert page.causes[page.gone["cause"][0] - 1] == "power"
    failed = [page.who[by - 1] for by in page.stays["by"].tolist() if by]
    assert failed
    assert set(failed) == {"server 1"}


def test_a_window_is_chosen_around_the_longest_queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome = ringbco.replay(busy_jobs(), "4x4", policy="fifo")
    whole, _ = player({"fifo": outcome})
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    told, note = player({"fifo": outcome})
    assert "around the longest queue" in note
    assert told["last"] - told["first"] < whole["last"] - whole["first"]
    peak = outcome.timeline.sort("queued_gpus", descending=True)["time"][0]
    assert told["first"] <= peak <= told["last"]
    assert len(Page(told).held["stay"]) <= 10
    with pytest.raises(
        UsageError, match=r"rows of allocations: expected at most 10; choose a part by --from"
    ):
        play(outcome, tmp_path / "page.html", start=0.0, end=1e9)
    assert list(tmp_path.iterdir()) == []


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    outcome = ringbco.replay(busy_jobs(), "4x4", policy="srtf")
    outcome.write(tmp_path / "srtf")
    first = play(outcome, tmp_path / "a.html")
    second = play([tmp_path / "srtf"], tmp_path / "b.html")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert (first.results, first.bytes) == (("srtf",), first.path.stat().st_size)


def test_no_name_is_markup_and_nothing_is_asked_for(tmp_path: Path) -> None:
    outcome = ringbco.replay(busy_jobs(), "4x4", policy="fifo")
    written = play({"</script><b>": outcome}, tmp_path / "page.html", title="<i>title</i>")
    text = written.path.read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "<i>title" not in text
    assert re.findall(r"https?://[^\"' ]+", text) == []


@pytest.mark.parametrize(
    ("results", "name", "given", "said"),
    [
        (["one"], "page.txt", {}, "expected a name that ends in .html"),
        (["one", "one"], "page.html", {}, "given twice"),
        (["one", "two", "three"], "page.html", {}, "3 results: expected one or two"),
        (["bare"], "page.html", {}, "no allocations.parquet"),
        (["one"], "page.html", {"servers": "9"}, "the cluster's servers are 0 to 3"),
        (["one"], "page.html", {"start": 5.0, "end": 1.0}, "expected from < to"),
        (["nothing"], "page.html", {}, "there is nothing of this name"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, results: list[str], name: str, given: dict[str, Any], said: str
) -> None:
    outcome = ringbco.replay(busy_jobs(), "4x4", policy="fifo")
    for label in {"one", "two", "three"} & set(results):
        outcome.write(tmp_path / label)
    if "bare" in results:
        ringbco.replay(busy_jobs(), "4x4", policy="fifo", allocations=False).write(tmp_path / "bare")
    with pytest.raises((InputError, UsageError), match=re.escape(said)):
        play([tmp_path / label for label in results], tmp_path / name, **given)
    assert not (tmp_path / name).exists()


def test_a_result_has_the_colour_of_its_report() -> None:
    outcomes = {policy: ringbco.replay(busy_jobs(), "4x4", policy=policy) for policy in ("fifo", "srtf")}
    told, _ = player(outcomes)
    places = looks(ranked(outcomes))
    assert {one["label"]: one["tone"] for one in told["results"]} == {
        label: tone_name(COLOURS[place]) for label, place in places.items()
    }
    for label, cell in named(ranked(outcomes)).items():
        (one,) = (one for one in told["results"] if one["label"] == label)
        assert cell.swatch is not None
        assert (cell.swatch.tone, cell.swatch.dashes) == (one["tone"], " ".join(map(str, one["dashes"])))


@pytest.mark.parametrize(("begin", "until"), [("2026-03-02T08:02", "2026-03-02T08:08:00"), ("120", "8min")])
def test_a_part_is_named_by_dates_or_times(tmp_path: Path, begin: str, until: str) -> None:
    jobs = rows_table("submit_time num_gpus duration", [(0.0, 2, 600.0), (60.0, 2, 600.0)])
    table = from_frame(jobs, metadata={"ringbco.epoch": "2026-03-02T08:00:00"})
    outcome = ringbco.replay(table, "1x2", policy="fifo", model="fixed")
    written = play(outcome, tmp_path / "play.html", start=begin, end=until)
    assert (written.start, written.end) == (120.0, 480.0)
    assert viewport(outcome, datetime(2026, 3, 2, 8, 2), until, None).start == 120.0
    undated = ringbco.replay(from_frame(jobs), "1x2", policy="fifo", model="fixed")
    if "-" in begin:
        for own, said in (
            (undated, "the job table does not say on which date"),
            (outcome, "without an offset"),
        ):
            with pytest.raises(UsageError, match=f"option from: .*expected.*{said}"):
                viewport(own, "2026-03-02T08:02+01:00", None, None)
