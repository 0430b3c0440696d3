"""Slurm: outages and drains from `sacctmgr -P list events`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import RingbcoError
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options
from test_slurm_forms import NAMES, row

NODES = "NodeName=n1 Gres=gpu:4 State=IDLE Partitions=gpu\nNodeName=n2 Gres=gpu:4 State=IDLE Partitions=gpu\n"
EVENTS = """\
NodeName|State|TimeStart|TimeEnd|Reason
|cluster registered|2026-05-03T00:00:00|2026-05-05T00:00:00|
n1|DRAINING|2026-05-04T08:30:00|2026-05-04T09:30:00|disk check
n2|DOWN*|2026-05-03T20:00:00|2026-05-04T08:10:00|Not responding
n2|DRAIN+DOWN|2026-05-04T12:00:00|Unknown|kernel|update
n2|FAIL|2026-05-04T10:00:00|2026-05-04T10:00:00|blink
n1|MAINT|2026-05-04T10:00:00|2026-05-04T11:00:00|window
n1|DOWN|2026-05-01T10:00:00|2026-05-02T11:00:00|old
cpu9|DOWN|2026-05-04T10:00:00|2026-05-04T11:00:00|no GPUs
"""


def made(folder: Path, events: str, *, nodes: str = NODES, **options: object) -> Conversion:
    files = {"log.psv": f"{NAMES}\n{row()}\n", "events.psv": events, "nodes.txt": nodes}
    for name, text in files.items():
        (folder / name).write_text(text)
    given = Options(want_outages=True, **options)  # type: ignore[arg-type]
    return convert("slurm", [folder / name for name, text in files.items() if text], given)


def test_events_become_outages_and_drains(tmp_path: Path) -> None:
    result = made(tmp_path, EVENTS)
    assert result.outages is not None
    hour = 3600.0
    assert result.outages.rows() == [
        ("n1", 8.5 * hour, 9.5 * hour, "drain", "disk check"),
        ("n2", 0.0, 8 * hour + 600, "down", "Not responding"),
        ("n2", 12 * hour, None, "drain", "kernel|update"),
    ]
    told = [note for note in result.notes if note.startswith("events left out")]
    assert sorted(told) == [
        "events left out, of no length: 1, the first in line 6: n2",
        "events left out, of no node: 1, the first in line 2",
        "events left out, of nodes that are no servers: 1, the first in line 9: cpu9",
        "events left out, over before the log's epoch: 1, the first in line 8: n1",
        "events left out, whose State is neither drained nor down: 1, the first in line 7: MAINT",
    ]


def test_they_are_what_a_replay_takes(tmp_path: Path, invoke: Invoke) -> None:
    made(tmp_path, EVENTS)
    files = [str(tmp_path / name) for name in ("log.psv", "events.psv", "nodes.txt")]
    for end in ("csv", "parquet"):
        ran = invoke(
            "convert", "slurm", *files, "-o", "j.parquet", "--cluster-out", "c.toml",
            "--outages-out", f"o.{end}", "--force",
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert f"1 outages and 2 drains in o.{end}" in ran.stdout
        outcome = ringbco.replay("j.parquet", "c.toml", outages=f"o.{end}", model="fixed")
        assert outcome.outages is not None
        assert outcome.outages["server"].to_list() == [0, 1, 1]
        assert outcome.outages["kind"].to_list() == ["drain", "down", "drain"]


def test_a_time_zone(tmp_path: Path) -> None:
    events = "NodeName|State|TimeStart|TimeEnd|Reason\nn1|DRAIN|2026-05-04T08:00:00|2026-05-04T09:00:00|\n"
    result = made(tmp_path, events, timezone="Europe/Berlin")
    assert result.outages is not None
    assert result.outages.select("down_at", "up_at", "cause").rows() == [(6 * 3600.0, 7 * 3600.0, None)]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            "NodeName|State|TimeStart|TimeEnd\nn1|DOWN|soon|Unknown\n",
            "events.psv: row 1 (line 2), column TimeStart: soon: expected a time such as 2026-05-01T08:00:00",
        ),
        (
            "NodeName|State|TimeStart|TimeEnd\nn1|DOWN|2026-05-04T08:00:00Z|Unknown\n",
            "column TimeStart: 2026-05-04T08:00:00Z: expected a time with no offset",
        ),
        ("NodeName|State|TimeStart\nn1|DOWN|2026-05-04T08:00:00\n", "has no column TimeEnd"),
        ("", "give a list of Slurm's events"),
    ],
)
def test_what_cannot_be_read(events: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(RingbcoError) as caught:
        made(tmp_path, events)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_sources_have_no_events(invoke: Invoke) -> None:
    Path("t.swf").write_text("1 0 0 10 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n")
    ran = invoke("convert", "swf", "t.swf", "-o", "j.parquet", "--outages-out", "o.csv")
    assert ran.returncode != 0
    assert "--outages-out is not an option of swf" in ran.stderr


def test_events_without_the_option_are_named(tmp_path: Path) -> None:
    made(tmp_path, EVENTS)
    result = convert("slurm", [tmp_path / "log.psv", tmp_path / "events.psv"], Options())
    assert result.outages is None
    assert any("--outages-out FILE makes outages of it" in note for note in result.notes)
