"""Slurm: every small log of `slurm/` gives the jobs and the account that stand beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from raw import slurm
from raw.agreement import converted
from ringbco.errors import InputError, UsageError
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options

CASES = Path(__file__).with_name("slurm")
FIELDS = (
    "JobID,JobName%100,State,ExitCode,Submit,Start,End,ElapsedRaw,AllocTRES%150,ReqTRES%150,NodeList%80,"
    "Partition,Restarts"
)
NOTED = {
    "two types": "holds several GPU types: recorded_on left empty",
    "holds more GPUs (8) than it asked for (0)": "holds more GPUs than ReqTRES asks for",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "slurm-06-noheader": {"fields": tuple(FIELDS.split(","))},
    "slurm-10-job-table": {"tres": CASES / "slurm-10-tres-mapping.txt"},
}


def case(name: str, **options: Any) -> tuple[Conversion, dict[str, Any]]:
    [log] = (path for path in CASES.glob(f"{name}.*") if not path.name.endswith(".json"))
    want = json.loads((CASES / f"{name}.want.json").read_text())
    return convert("slurm", [log], Options(**OPTIONS.get(name, {}), **options)), want


def submitted(result: Conversion, job: dict[str, Any]) -> float:
    epoch = datetime.fromisoformat(result.epoch.removesuffix("Z")).replace(tzinfo=UTC).timestamp()
    return epoch + float(job["submit_time"])


def moment(text: str) -> float:
    first = text.split(maxsplit=1)[0]
    return float(first) if first.isdigit() else datetime.fromisoformat(first + "+00:00").timestamp()


def agrees(result: Conversion, kept: dict[str, dict[str, Any]]) -> None:
    jobs = {job["job_id"]: job for job in result.table.frame.to_dicts()}
    assert set(jobs) == set(kept)
    for name, want in kept.items():
        job = jobs[name]
        for column, value in want.items():
            if column == "submit":
                assert submitted(result, job) == moment(value)
            elif column == "noted":
                assert NOTED[value] in result.account.noted
            else:
                assert job[column] == value, (name, column)


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    converted("slurm", slurm.generate(seed, each=10), tmp_path)


@pytest.mark.parametrize("name", sorted(p.name.removesuffix(".want.json") for p in CASES.glob("*.want.json")))
def test_a_small_log_gives_what_stands_beside_it(name: str) -> None:
    if name == "slurm-09-fixed":
        with pytest.raises(
            InputError, match=r"cut to their width \(line 2 is dashes\).* use -P: .*`sacct -a"
        ):
            case(name)
        return
    result, want = case(name)
    account = result.account
    assert account.rows_read == want.get("rows_read", account.rows_read)
    if "kept" in want:
        agrees(result, want["kept"])
    if "dropped" in want:
        counts = {why: n if isinstance(n, int) else len(n) for why, n in want["dropped"].items()}
        assert account.dropped == counts
    if "changed" in want:
        assert account.changed == want["changed"]
    for entry in account.entries:
        assert entry.first or not entry.rows
    if "gpu_hours" in want:
        held = result.table.frame.select("num_gpus", "duration").iter_rows()
        assert sum(gpus * seconds for gpus, seconds in held) / 3600 == want["gpu_hours"]


def test_submissions_may_count_from_submit() -> None:
    result, want = case("slurm-12-eligible", submitted="submit")
    [job] = (job for job in result.table.frame.to_dicts() if job["job_id"] == "122")
    assert submitted(result, job) == moment(want["with --submitted submit"]["122"]["submit"])
    assert not result.account.changed


def test_limits_never_drop_a_job() -> None:
    result, want = case("slurm-13-limits")
    limits = dict(result.table.frame.select("job_id", "time_limit").iter_rows())
    assert limits == want["time_limit"]


def test_the_window_of_the_dump_is_said() -> None:
    result, _ = case("slurm-14-window")
    [note] = result.notes
    assert note.startswith(
        "2 jobs were submitted before the first end in the log, 2026-05-01T01:10:00, with 97.5 % of"
    )
    assert note.endswith("`--from 2026-05-01T01:10:00` leaves them out")
    result, want = case("slurm-14-window", since="2026-05-01")
    want = want["with --from 2026-05-01"]
    assert result.table.frame["job_id"].to_list() == want["kept"]
    assert result.account.dropped == want["dropped"]
    result, _ = case("slurm-14-window", until="2026-05-01T02:00")
    assert result.account.dropped == {"submitted after --until": 1}


def test_a_log_without_a_header_asks_for_its_names() -> None:
    with pytest.raises(InputError, match=r"has no header line \(sacct -n\).*--fields JobID"):
        convert("slurm", [CASES / "slurm-06-noheader.psv"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "res.txt",
            "ReservationName=maint StartTime=2026-05-04T08:00:00\n   Nodes=g01\n",
            "scontrol show res",
        ),
        ("none.txt", "No reservations in the system\n", "scontrol show res"),
        ("topology.yaml", "---\n# ours\n- topology: default\n  tree:\n    switches: []\n", "topology.yaml"),
        ("topology.conf", "# ours\n\nSwitchName=s1 Nodes=g[01-04]\n", "topology.conf"),
    ],
)
def test_what_is_not_read_is_said_once(tmp_path: Path, name: str, text: str, said: str) -> None:
    given = tmp_path / name
    given.write_text(text)
    [log] = CASES.glob("slurm-12-eligible.psv")
    plain, made = (convert("slurm", files, Options()) for files in ([log], [log, given]))
    assert made.table.frame.equals(plain.table.frame)
    [note] = set(made.notes) - set(plain.notes)
    assert note.startswith(f"{given} is a ")
    assert said in note
    assert made.notes.count(note) == 1
    with pytest.raises(UsageError, match="which holds no jobs"):
        convert("slurm", [given], Options())
