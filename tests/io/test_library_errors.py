"""Inputs that once ended in an error of a library: each works, or is refused in one line that says where."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_JOBS, Invoke
from raw import helios, openb, pai, swf
from ringbco import replay
from ringbco.errors import InputError
from ringbco.sources import convert
from ringbco.sources.source import Options

TYPED = '[[servers]]\ncount = 2\ngpus = 1\ngpu_type = "V100"\n'
SPEEDS = "model,gpu_type,gpus,servers,rate,partner,partner_rate\n"
VERBS = (("audit", "r"), ("report", "r", "-o", "r.html"), ("play", "r", "-o", "p.html"))
REPLAY = ("replay", "small.csv", "--cluster", "2x8", "-q", "-o", "r")


def refused(invoke: Invoke, *command: object) -> str:
    run = invoke(*command)
    assert (run.returncode, run.stderr.count("\n")) == (1, 1), run
    assert "unexpected" not in run.stderr
    return run.stderr.removeprefix("error: ").rstrip()


def test_a_table_of_speeds_that_holds_pairs_only(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(TYPED)
    (tmp_path / "s.csv").write_text(SPEEDS + "LM,V100,1,1,6,A3C,2\n")
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration,model\na,0,1,10,LM\n")
    options = ("--cluster", "c.toml", "--model", "table", "--tables", "s.csv")
    said = refused(invoke, "replay", "j.csv", *options, "-o", "r")
    assert said.startswith("j.csv: row 1 (line 2), column model: LM: expected a model whose rate on 1 GPU")


def test_more_processors_than_a_job_table_holds(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    line = "{} 0 0 10 {} -1 -1 {} -1 -1 1 1 1 1 1 1 -1 -1\n"
    path.write_text(line.format(1, "5e9", "5e9") + line.format(2, 4, 4))
    made = convert("swf", [path])
    assert made.table.num_jobs == 1
    assert made.account.dropped == {"more than 4,294,967,295 GPUs": 1}


@pytest.mark.parametrize("start", ["9" * 30, "9" * 5000, "²"])
def test_a_start_that_is_no_date(tmp_path: Path, start: str) -> None:
    (path,) = swf.generate(good=3, each=0).write(tmp_path)
    path.write_text(f"; UnixStartTime: {start}\n; MaxNodes: {start}\n" + path.read_text())
    assert convert("swf", [path]).table.num_jobs == 3


def test_days_beyond_the_last_date(tmp_path: Path, invoke: Invoke) -> None:
    (path,) = swf.generate(good=3, each=0).write(tmp_path)
    late = f"99999 {10**14} 0 10 4 -1 -1 4 -1 -1 1 1 1 1 1 1 -1 -1\n"
    path.write_text(f"; UnixStartTime: {10**9}\n" + path.read_text() + late)
    for command in (
        ("convert", "swf", path.name, "-o", "j.parquet"),
        ("inspect", "j.parquet", "--html", "i.html"),
        ("replay", "j.parquet", "--cluster", "8x8", "--oversize", "drop", "-o", "r"),
        ("compare", "j.parquet", "--cluster=8x8", "--policy=fifo", "--policy=sjf", "--oversize=drop", "-o=c"),
        *VERBS,
    ):
        assert invoke(*command).returncode == 0, command
    assert "1,157,40" in (tmp_path / "i.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("verb", [("inspect", "j.csv"), ("replay", "j.csv", "--cluster=4x8", "-o", "r")])
def test_work_told_of_runs_of_no_length(tmp_path: Path, invoke: Invoke, verb: tuple[str, ...]) -> None:
    header = "job_id,submit_time,num_gpus,duration,iterations,batch_size,gradient_bytes,fp_time,bp_time\n"
    (tmp_path / "j.csv").write_text(header + "a,0,4,1e-320,15,1,3e9,0.5,0.1\n")
    done = invoke(*verb)
    assert (done.returncode, "e+100 times the recorded duration" in done.stderr) == (0, True), done


def test_stories_of_a_plan(small_jobs: Path, invoke: Invoke) -> None:
    assert invoke("plan", "small.csv", "--cluster", "2x8", "-q", "-o", "p").returncode == 0
    for job in "abcdefg":
        assert invoke("why", "p", job).returncode == 0


def test_two_byte_order_marks(small_jobs: Path, invoke: Invoke) -> None:
    small_jobs.write_bytes(b"\xef\xbb\xbf" * 2 + small_jobs.read_bytes())
    assert refused(invoke, *REPLAY).startswith(
        "small.csv: begins with two byte-order marks; save it as UTF-8"
    )


def test_a_column_too_many(small_jobs: Path, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "s.csv").write_text("service,time,replicas,gpus_per_replica\nchat,0,1,1\n")
    assert invoke(*REPLAY, "--services", "s.csv").returncode == 0
    for file in sorted((tmp_path / "r").glob("*.parquet")):
        pl.read_parquet(file).with_columns(more=1).write_parquet(file)
    assert "unexpected" not in invoke("audit", "r").stderr
    for verb in (("why", "r", "a"), ("diff", "r", "r")):
        assert invoke(*verb).returncode == 0


@pytest.mark.usefixtures("unvalidated")
@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\ufffe", "\x85"])
def test_ends_of_lines_in_names(tmp_path: Path, invoke: Invoke, odd: str) -> None:
    rows = pl.read_csv(SMALL_JOBS.encode()).with_columns(
        user=pl.lit(f"a{odd}b"), vc=pl.lit(f"v{odd}x"), gpu_type=pl.lit(f"t{odd}x")
    )
    rows.write_parquet(tmp_path / "j.parquet")
    name = json.dumps(f"t{odd}x")
    vc = json.dumps(f"v{odd}x")
    (tmp_path / "c.toml").write_text(
        f"[[servers]]\ncount = 2\ngpus = 8\ngpu_type = {name}\nvc = {vc}\n[gpu_types.{name}]\nspeed = 1.0\n"
    )
    out = f"r{odd}"
    assert invoke("replay", "j.parquet", "--cluster", "c.toml", "-q", "-o", out).returncode == 0
    drawn = invoke("report", out, "-o", "p.html")
    assert (drawn.returncode, drawn.stderr) == (0, "")


def test_a_duration_next_to_nothing(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "small.csv"
    path.write_text("job_id,submit_time,num_gpus,duration\na,0,16,30\nb,0,16,1e-310\n")
    said = refused(invoke, *REPLAY, "--model", "fixed")
    assert said.startswith(
        "small.csv: row 2 (line 3), column duration: 1e-310: expected a job that alone runs"
    )
    path.write_text("job_id,submit_time,num_gpus,duration\na,0,16,30\nb,0,16,1e-99\n")
    assert invoke(*REPLAY, "--model", "fixed").returncode == 0
    text = (tmp_path / "r" / "summary.json").read_text()
    assert '"inf"' not in text
    assert '"nan"' not in text
    for verb in (
        ("audit", "r"),
        ("report", "r", "-o", "r.html"),
        ("why", "r", "b"),
        ("play", "r", "-o", "p.html"),
    ):
        done = invoke(*verb)
        assert (done.returncode, done.stderr) == (0, ""), done


def test_a_report_of_jobs_that_take_no_time_to_speak_of(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "small.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,1,1e-99\nb,0,2,1e-99\n")
    assert invoke(*REPLAY, "--model", "fixed").returncode == 0
    assert invoke("report", "r", "-o", "r.html").returncode == 0


def test_four_billion_replicas(small_jobs: Path, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "s.csv").write_text(
        "service,time,replicas,gpus_per_replica\nx,0,4294967295,1\nx,100,9,1\nx,200,0,1\n"
    )
    assert invoke(*REPLAY, "--services", "s.csv").returncode == 0
    for verb in (("audit", "r"), ("report", "r", "-o", "r.html"), ("why", "r", "a"), ("diff", "r", "r")):
        assert invoke(*verb).returncode == 0


def test_jobs_ended_outside_a_window(tmp_path: Path, invoke: Invoke) -> None:
    rows = [f"j{row},{row},1,10,{2 if row < 3 else 100}" for row in range(6)]
    (tmp_path / "small.csv").write_text(
        "\n".join(["job_id,submit_time,num_gpus,duration,time_limit", *rows, ""])
    )
    assert invoke(*REPLAY, "--enforce-limits", "--measure-from", "4s").returncode == 0
    for verb in (
        ("audit", "r"),
        ("play", "r", "-o", "p.html"),
        ("timeline", "r", "-o", "t.json"),
        ("why", "r", "j0"),
    ):
        assert invoke(*verb).returncode == 0


def test_options_beyond_measure_are_audited(small_jobs: Path, invoke: Invoke) -> None:
    assert invoke(*REPLAY, "--sleep-after", "1e100", "--wake-time", "1e3").returncode == 0
    assert invoke("audit", "r").returncode == 0


@pytest.mark.parametrize(
    ("option", "head", "row", "column"),
    [
        (None, "job_id,submit_time,num_gpus,duration\na,0,1,1\n", "b\0,0,1,1", "job_id"),
        ("--outages", "server,down_at,up_at,cause\n0,1,2,x\n", "1,3,4,x\0", "cause"),
        ("--quota", "vc,gpus,borrow\nx,1,true\n", "y\0,1,true", "vc"),
        ("--services", "service,time,replicas,gpus_per_replica\nx,0,1,1\n", "y\0,0,1,1", "service"),
    ],
)
def test_a_nul_is_told_by_its_cell(
    small_jobs: Path, tmp_path: Path, invoke: Invoke, option: str | None, head: str, row: str, column: str
) -> None:
    (tmp_path / "x.csv").write_text(f"{head}{row}\n")
    jobs = "x.csv" if option is None else "small.csv"
    said = refused(
        invoke, "replay", jobs, "--cluster", "2x8", "-o", "r", *(() if option is None else (option, "x.csv"))
    )
    assert said.startswith(f"x.csv: row 2 (line 3), column {column}: ")
    assert "expected text without the character NUL" in said


@pytest.mark.parametrize("gpus", ["4294967296", "4294967295", "16777217"])
def test_a_node_with_too_many_gpus(tmp_path: Path, gpus: str) -> None:
    paths = openb.generate(good=6, each=0).write(tmp_path)
    (nodes,) = (path for path in paths if "node" in path.name)
    lines = nodes.read_text().split("\n")
    lines[2] = lines[2].replace(",2,", f",{gpus},", 1)
    nodes.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"row 2 \(line 3\), column gpu: {gpus}: expected"):
        convert("openb", paths, Options(want_cluster=True))


def test_a_day_that_is_none(tmp_path: Path) -> None:
    paths = helios.generate(good=6, each=0).write(tmp_path)
    (gpus,) = (path for path in paths if "gpu" in path.name)
    lines = gpus.read_text().split("\n")
    gpus.write_text("\n".join([lines[0], lines[1], lines[2].replace("2020-09-02", "a b"), *lines[3:]]))
    with pytest.raises(InputError, match=r"row 2 \(line 3\), column date: 'a b': expected a day such as"):
        convert("helios", paths, Options(want_cluster=True))


@pytest.mark.parametrize(
    ("file", "old", "column"),
    [("pai_job_table.csv", 4, "start_time"), ("pai_task_table.csv", 2, "inst_num")],
)
def test_a_bad_number_in_a_file_without_a_header(tmp_path: Path, file: str, old: int, column: str) -> None:
    paths = [path for path in pai.generate(good=6, each=0).write(tmp_path) if path.suffix == ".csv"]
    first, rest = (tmp_path / file).read_text().split("\n", 1)
    cells = first.split(",")
    cells[old] = "x"
    (tmp_path / file).write_text(",".join(cells) + "\n" + rest)
    with pytest.raises(InputError, match=rf"{file}: row 1 \(line 1\), column {column}: x: expected a row of"):
        convert("pai", paths)


def test_a_comparison_on_a_full_disk_says_what_is_left(small_jobs: Path, small_disk: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ringbco",
        "compare",
        "small.csv",
        "--cluster",
        "2x8",
        "--policy",
        "fifo",
    ]
    command += ["--policy", "sjf", "-q", "-o", str(small_disk / "o")]
    for filled in (700_000, 850_000, 1_000_000, 1_040_000):
        shutil.rmtree(small_disk / "o.unfinished", ignore_errors=True)
        (small_disk / "fill").write_bytes(bytes(filled))
        done = subprocess.run(
            command, check=False, capture_output=True, encoding="utf-8", cwd=small_jobs.parent
        )
        if done.returncode == 0:
            shutil.rmtree(small_disk / "o")
            continue
        left = {path.name for path in small_disk.iterdir()} - {"fill"}
        assert ("nothing was left behind" in done.stderr) == (not left), (left, done.stderr)
        assert ("o.unfinished" in done.stderr) == ("o.unfinished" in left)
        assert ".partial" not in done.stderr


def test_runs_that_replace_each_other(small_jobs: Path) -> None:
    folder = small_jobs.with_name("r")
    outcomes = [replay(small_jobs, "2x8", policy=policy) for policy in ("fifo", "sjf", "srtf")]
    outcomes[0].write(folder)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(8):
            for done in [pool.submit(outcome.write, folder, force=True) for outcome in outcomes]:
                done.result()
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []


def test_a_hidden_name_is_not_told(small_jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringbco.io.atomic import whole_folder

    with (
        pytest.raises(InputError, match=r"out/run.toml: is odd") as caught,
        whole_folder("out", tmp_path / "out", None) as partial,
    ):
        raise InputError("is odd", file=partial / "run.toml")
    assert ".partial" not in str(caught.value)


@pytest.mark.parametrize("preset", ["philly", "paper"])
def test_force_knows_what_generate_writes(small_jobs: Path, invoke: Invoke, preset: str) -> None:
    before = small_jobs.read_bytes()
    made = ("generate", "--preset", preset, "--jobs", "5", "-q", "--force", "-o")
    assert "is no job table of ringbco's" in refused(invoke, *made, "small.csv")
    assert small_jobs.read_bytes() == before
    for other in ("philly", "helios", "paper"):
        assert (
            invoke("generate", "--preset", other, "--jobs", "5", "-q", "--force", "-o", "g.csv").returncode
            == 0
        )
        assert invoke(*made, "g.csv").returncode == 0
    assert invoke(*made, "g.csv", "--types", "V100:0.5", "--elastic", "0.5:2").returncode == 0
    assert invoke(*made, "g.csv").returncode == 0


def test_force_knows_what_profile_and_convert_write(small_jobs: Path, tmp_path: Path, invoke: Invoke) -> None:
    shutil.copy(small_jobs, tmp_path / "mine.csv")
    refused(invoke, "profile", "small.csv", "-q", "--force", "-o", "mine.csv")
    paths = helios.generate(good=6, each=0).write(tmp_path)
    said = refused(invoke, "convert", "helios", *paths, "-q", "--force", "-o", "mine.csv")
    assert "--force does not replace it" in said
    assert (tmp_path / "mine.csv").read_text() == SMALL_JOBS
    for _ in range(2):
        command = ("convert", "helios", *paths, "-q", "--force", "-o", "h.csv", "--cluster-out", "h.toml")
        assert invoke(*command).returncode == 0
    (tmp_path / "h.toml").write_text((tmp_path / "h.toml").read_text().partition("\n")[2])
    assert "is no cluster file of ringbco's" in refused(invoke, *command)
