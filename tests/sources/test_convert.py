"""`ringbco convert` from the shell: what it writes, prints and refuses, and with which exit status."""

from __future__ import annotations

import json
import shlex
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import Invoke
from raw import helios, openb, philly
from ringbco.cluster.spec import Cluster
from ringbco.sources import SOURCES
from ringbco.sources.account import Account
from ringbco.trace.jobs import read_jobs

PHILLY = Path(__file__).parents[2] / "docs" / "sources" / "philly.md"

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def log(tmp_path: Path) -> list[Path]:
    """A Helios log with defects, and its table of GPUs."""
    return helios.generate().write(tmp_path / "in")


def left(folder: Path) -> set[str]:
    return {name.name for name in folder.iterdir()} - {"in"}


def test_job_table_account_and_cluster(invoke: Invoke, log: list[Path], tmp_path: Path) -> None:
    raw = helios.generate()
    done = invoke("convert", "helios", *log, "-o", "jobs.parquet", "--cluster-out", "c.toml")
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == {"jobs.parquet", "c.toml"}
    for reason, count in raw.dropped.items():
        row = next(line for line in done.stdout.splitlines() if reason in line)
        assert row.split("│")[0].strip() == "dropped"
        assert int(row.split("│")[2]) == count
    assert f"{len(raw.jobs):,} jobs in jobs.parquet" in done.stdout
    assert "23 servers, 180 GPUs in c.toml" in done.stdout
    assert done.stderr.startswith("note: ")

    table = read_jobs(tmp_path / "jobs.parquet")
    assert table.frame.to_dicts() == raw.jobs
    account = Account.from_metadata(table.metadata)
    assert account is not None
    assert account.dropped == dict(raw.dropped)
    footer = pq.read_metadata(tmp_path / "jobs.parquet").metadata
    assert json.loads(footer[b"ringbco.rows_dropped"]) == dict(raw.dropped)
    assert json.loads(footer[b"ringbco.rows_changed"]) == dict(raw.changed)
    assert Cluster.parse(tmp_path / "c.toml").vc_names == ("vcvGl", "vcKeu")


def test_the_converted_trace_can_be_replayed(invoke: Invoke, tmp_path: Path) -> None:
    pods = openb.generate().write(tmp_path / "in")
    invoke("convert", "openb", *pods, "-o", "jobs.parquet", "--cluster-out", "c.toml")
    done = invoke("replay", "jobs.parquet", "--cluster", "c.toml", "--policy", "fifo", "-o", "r", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"] == len(openb.generate().jobs)


def test_the_same_files_give_the_same_bytes(
    invoke: Invoke, run_cli: RunCli, log: list[Path], tmp_path: Path
) -> None:
    """In another process too, whose sets have another order."""
    for name, run in (("a.parquet", invoke), ("b.parquet", run_cli)):
        assert run("convert", "helios", *log, "-o", name, "-q").returncode == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_json_and_quiet(invoke: Invoke, log: list[Path]) -> None:
    done = invoke("convert", "helios", log[0], "-o", "jobs.csv", "--json")
    document = json.loads(done.stdout)
    raw = helios.generate()
    assert document["dropped"] == dict(raw.dropped)
    assert (document["rows_read"], document["rows_kept"]) == (raw.rows_read, len(raw.jobs))
    assert (document["source"], document["jobs"], document["cluster"]) == ("helios", "jobs.csv", None)
    done = invoke("convert", "helios", log[0], "-o", "more.csv", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_strict_is_one_line_and_leaves_nothing(invoke: Invoke, log: list[Path], tmp_path: Path) -> None:
    done = invoke("convert", "helios", *log, "-o", "jobs.parquet", "--cluster-out", "c.toml", "--strict")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"error: {log[0]}: row ")
    assert "; without --strict: " in done.stderr
    assert left(tmp_path) == set()


@pytest.mark.parametrize("source", SOURCES)
def test_cite(invoke: Invoke, source: str) -> None:
    done = invoke("convert", source, "--cite")
    assert done.returncode == 0
    assert "% licence: " in done.stdout
    assert done.stdout.count("{") == done.stdout.count("}")
    assert ("@" in done.stdout) == (source != "csv")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["helios"], 2, "convert helios: give a Helios job log"),
        (["helios", "LOG"], 2, "convert helios: say where the job table goes: -o JOBS.parquet"),
        (["helis", "LOG", "-o", "j.parquet"], 2, "no source helis"),
        (["helios", "LOG", "-o", "j.txt"], 2, "j.txt: expected a name ending in .parquet or .csv"),
        (["helios", "LOG", "-o", "LOG"], 2, "is one of the inputs"),
        (["helios", "LOG", "-o", "j.csv", "--cluster-out", "j.csv"], 2, "are both j.csv"),
        (["helios", "LOG", "-o", "j.csv", "--mode", "span"], 2, "--mode is not an option of helios"),
        (["swf", "LOG", "-o", "j.csv", "--known-vcs"], 2, "--known-vcs is not an option of swf"),
        (["helios", "LOG", "-o", "j.csv", "--known-vcs"], 2, "--known-vcs: give cluster_gpu"),
        (["helios", "LOG", "-o", "j.csv", "--snapshot", "2020-09-01"], 2, "--snapshot: give cluster_gpu"),
        (["helios", "LOG", "-o", "j.csv", "--cluster-out", "c.toml"], 2, "does not say which servers"),
        (["csv", "LOG", "-o", "j.csv", "--map", "num_gpus"], 2, "--map num_gpus: expected ours=theirs"),
        (["csv", "LOG", "-o", "j.csv", "--map", "vc=a", "--map", "vc=b"], 2, "vc is mapped already, to a"),
        (["csv", "LOG", "-o", "j.csv", "--map", "gpus=gpu_num"], 2, "gpus is no column of the job table"),
        (["helios", "nothing.csv", "-o", "j.csv"], 1, "nothing.csv: no such file"),
        (["helios", "LOG", "-o", "nowhere/j.csv"], 1, "its folder does not exist"),
        (["openb", "LOG", "-o", "j.csv"], 1, "use `ringbco convert helios ...`"),
        (["philly", "LOG", "-o", "j.csv"], 1, "use `ringbco convert helios ...`"),
    ],
)
def test_refusals(
    invoke: Invoke, log: list[Path], tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    done = invoke("convert", *(str(log[0]) if a == "LOG" else a for a in arguments))
    assert done.returncode == status
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert left(tmp_path) == set()


def test_existing_files_stay_without_force(invoke: Invoke, log: list[Path], tmp_path: Path) -> None:
    for existing in ("jobs.parquet", "c.toml"):
        (tmp_path / existing).write_text("mine")
        arguments = ("convert", "helios", *log, "-o", "jobs.parquet", "--cluster-out", "c.toml")
        done = invoke(*arguments)
        assert done.returncode == 1
        assert f"{existing}: already exists; pass --force to replace it" in done.stderr
        assert left(tmp_path) == {existing}
        assert (tmp_path / existing).read_text() == "mine"
        forced = invoke(*arguments, "--force")
        assert forced.returncode == 1
        assert f"{existing}: already exists and is no " in forced.stderr
        assert (tmp_path / existing).read_text() == "mine"
        (tmp_path / existing).unlink()
    for force in ((), ("--force",)):
        assert invoke(*arguments, *force).returncode == 0
        assert left(tmp_path) == {"jobs.parquet", "c.toml"}


def test_an_unwritable_cluster_leaves_no_job_table(
    run_cli_within_rights: RunCli, log: list[Path], tmp_path: Path
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    arguments = ("convert", "helios", *log, "-o", "jobs.parquet", "--cluster-out", locked / "c.toml")
    done = run_cli_within_rights(*arguments)
    assert done.returncode == 1
    assert "no permission to write" in done.stderr
    assert done.stderr.count("\n") == 1
    assert left(tmp_path) == {"locked"}


def test_modes_of_philly(invoke: Invoke, tmp_path: Path) -> None:
    [path] = philly.generate().write(tmp_path / "in")
    for mode in ("span", "sum", "split", "last"):
        done = invoke("convert", "philly", path, "--mode", mode, "-o", f"{mode}.parquet", "--json")
        assert json.loads(done.stdout)["rows_kept"] == len(philly.generate(mode).jobs)
        assert read_jobs(tmp_path / f"{mode}.parquet").num_jobs == len(philly.generate(mode).jobs)


def test_the_way_from_a_tarball_to_a_job_table(invoke: Invoke, tmp_path: Path) -> None:
    [path] = philly.generate().write(tmp_path / "in")
    with tarfile.open(tmp_path / "in" / "trace-data.tar.gz", "w:gz") as archive:
        archive.add(path, "trace-data/cluster_job_log")
    done = invoke("convert", "philly", "in/trace-data.tar.gz", "-o", "jobs.parquet")
    assert done.returncode == 0, done.stderr
    assert read_jobs(tmp_path / "jobs.parquet").frame.select("job_id").rows() == [
        (job["job_id"],) for job in philly.generate().jobs
    ]


@pytest.mark.long
def test_the_pages_way_from_the_archive_to_a_comparison(invoke: Invoke, tmp_path: Path) -> None:
    """The commands of docs/sources/philly.md on a log that has jobs of a virtual cluster of unknown size."""
    [path] = philly.generate().write(tmp_path / "in")
    with tarfile.open(tmp_path / "trace-data.tar.gz", "w:gz") as archive:
        archive.add(path, "trace-data/cluster_job_log")
    section = PHILLY.read_text(encoding="utf-8").split("## From the public Philly archive to a comparison")[1]
    commands = section.split("```")[1].split("\n")
    commands = [shlex.split(line) for line in commands if line]
    assert [command[:2] for command in commands] == [
        ["ringbco", verb] for verb in ("convert", "inspect", "compare", "report")
    ]
    for command in commands:
        done = invoke(*command[1:])
        assert done.returncode == 0, done.stderr
    unknown = sum(job["vc"] == "795a4c" for job in philly.generate().jobs)
    assert read_jobs(tmp_path / "philly.parquet").num_jobs == len(philly.generate().jobs) - unknown
    assert (tmp_path / "philly.html").stat().st_size > 10_000


def test_a_replay_that_meets_an_unknown_vc_names_both_ways_out(invoke: Invoke, tmp_path: Path) -> None:
    [path] = philly.generate().write(tmp_path / "in")
    done = invoke("convert", "philly", path, "-o", "jobs.parquet", "--cluster-out", "c.toml")
    assert "(795a4c): leave them out with --known-vcs, or replay with --vc pool" in done.stderr
    arguments = ("replay", "jobs.parquet", "--cluster", "c.toml", "--policy", "fifo", "-o", "r")
    done = invoke(*arguments)
    assert done.returncode == 1
    assert "column vc: 795a4c: " in done.stderr
    assert "leave such jobs out (`ringbco convert philly` and `helios`: --known-vcs)" in done.stderr
    assert "--vc pool" in done.stderr
    assert invoke(*arguments, "--vc", "pool").returncode == 0


def test_help_gives_an_example(invoke: Invoke) -> None:
    done = invoke("convert", "--help")
    assert done.returncode == 0
    text = " ".join(done.stdout.replace("│", " ").split())
    for word in (
        "Example: ringbco convert helios",
        "--cluster-out",
        "--strict",
        "--map",
        "Default: span for philly",
    ):
        assert word in text


@pytest.mark.parametrize("verb", ["replay", "plan", "inspect"])
def test_a_raw_trace_is_told_from_a_job_table(invoke: Invoke, tmp_path: Path, verb: str) -> None:
    (tmp_path / "raw.csv").write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "7,u1,vc1,1,2,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:05,2020-04-01 00:01:05,60,5\n"
    )
    output = () if verb == "inspect" else ("-o", "r")
    run = invoke(verb, "raw.csv", "--cluster", "2x8", *output)
    assert run.returncode == 1
    assert run.stderr.startswith("error: raw.csv: is ")
    assert "`ringbco convert helios raw.csv -o jobs.parquet`" in run.stderr
