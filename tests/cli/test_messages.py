"""What is told to whoever comes with other habits: other names, other headers, other files, short pipes."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import ringbco
from conftest import Invoke, only_linux
from ringbco.cli.fitted import Fitted
from ringbco.errors import InputError, UsageError
from ringbco.run.options import checked, policies, resolve_policy
from ringbco.trace.jobs import read_jobs
from ringbco.trace.other_names import _OF_OPTIONS, columns_meant

POD_LIST = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\nopenb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
)
REPLAY = ("--cluster", "2x8", "-o", "r")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(
            ("SJF-BCO", "sjf-bco"),
            ("sjf_bco", "sjf-bco"),
            ("SJF_BCO", "sjf-bco"),
            ("Time Slice", "time-slice"),
        ),
        *(("fcfs", "fifo"), ("las", "tiresias"), ("2D-LAS", "tiresias"), ("drf", "ftf"), ("themis", "ftf")),
        *(("gandiva", "time-slice"), ("rr", "time-slice"), ("backfill", "fifo with --queue easy")),
        *(("helios", "qssf"), ("srft", "srtf"), ("first-fit", "ff"), ("random", "rand")),
    ],
)
def test_another_name_of_a_policy_is_suggested_and_not_taken(given: str, meant: str) -> None:
    with pytest.raises(
        UsageError,
        match=rf"option policy: '{given}': expected .* did you mean {meant}\? Else one of ",
    ):
        resolve_policy(given)


def test_a_name_like_none_gets_no_suggestion() -> None:
    with pytest.raises(
        UsageError, match=r"repack, afs, optimus, elastic-srtf, elasticflow, recorded, gavel, allox, sia$"
    ):
        resolve_policy("xyz")


@pytest.mark.parametrize(
    ("part", "given", "meant"),
    [
        ("order", "FCFS", "fifo"),
        ("order", "shortest-job-first", "sjf"),
        ("placement", "first_fit", "first-fit"),
        ("placement", "pack", "consolidate"),
        ("placement", "best_fit", "best-fit"),
        ("queue", "backfill", "easy"),
        ("queue", "fifo", "strict"),
        ("model", "ring-all-reduce", "rar"),
        ("clock", "slotted", "slot"),
    ],
)
def test_the_same_of_the_parts(part: str, given: str, meant: str) -> None:
    with pytest.raises(
        UsageError,
        match=rf"option {part}: '{given}': expected .* did you mean {meant}\? Else one of ",
    ):
        ringbco.replay("none.csv", "2x8", **{part: given})


def test_every_suggestion_is_a_name_that_is_taken_and_no_name_is_in_the_table() -> None:
    names = {policy.name for policy in policies()}
    for other, meant in _OF_OPTIONS["policy"].items():
        assert other not in names
        words = meant.replace(" with --", " ").split()
        resolve_policy(words[0], **dict(zip(words[1::2], words[2::2], strict=True)))
    for part in ("order", "placement", "queue"):
        for other, meant in _OF_OPTIONS[part].items():
            resolve_policy("fifo", **{part: meant})
            with pytest.raises(UsageError):
                resolve_policy("fifo", **{part: other})


def test_a_planner_is_suggested_only_what_plans(invoke: Invoke, small_jobs: Path) -> None:
    run = invoke("plan", small_jobs.name, *REPLAY, "--policy", "Least_Loaded")
    assert run.returncode == 2
    assert run.stderr.endswith("did you mean ls? Else one of sjf-bco, ff, ls, rand\n")
    run = invoke("plan", small_jobs.name, *REPLAY, "--policy", "fcfs")
    assert run.stderr.endswith("expected one of sjf-bco, ff, ls, rand\n")


@pytest.mark.parametrize(("given", "meant"), [("philly", "philly"), ("Helios_Venus", "helios-venus")])
def test_a_preset_without_its_prefix(invoke: Invoke, small_jobs: Path, given: str, meant: str) -> None:
    run = invoke("replay", small_jobs.name, "--cluster", given, "-o", "r")
    assert run.returncode == 1
    assert run.stderr.endswith(f"there is no file of that name; did you mean preset:{meant}?\n")


HABITS = {
    "id,submitted,gpus,runtime": "--map job_id=id --map submit_time=submitted --map num_gpus=gpus"
    " --map duration=runtime",
    "Job ID,Arrival,GPUs,start,end": "--map 'job_id=Job ID' --map submit_time=Arrival --map num_gpus=GPUs"
    " --map start_time=start --map end_time=end",
    "job_id,submission_time,gpus,duration": "--map submit_time=submission_time --map num_gpus=gpus",
    "job_id,submit_time,num_gpus,start_time,end_time": "",
}


@pytest.mark.parametrize("header", HABITS)
def test_other_headers_get_the_command_that_maps_them_and_it_works(header: str, invoke: Invoke) -> None:
    row = "a,0,2,10,20" if header.count(",") == 4 else "a,0,2,10"
    Path("my jobs.csv").write_text(f"{header}\n{row}\n")
    run = invoke("replay", "my jobs.csv", *REPLAY)
    assert run.returncode == 1
    options = f"{HABITS[header]} " if HABITS[header] else ""
    command = f"ringbco convert csv 'my jobs.csv' {options}-o jobs.parquet"
    assert f"`{command}` makes a job table of it" in run.stderr
    assert invoke(*shlex.split(command)[1:]).returncode == 0
    made = read_jobs("jobs.parquet").frame.select("job_id", "num_gpus", "duration")
    assert made.rows() == [("a", 2, 10.0)]


def test_a_column_that_nothing_is_like_is_left_to_be_named(tmp_path: Path) -> None:
    path = tmp_path / "j.csv"
    path.write_text("id,submitted,gpus,wall\na,0,1,5\n")
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    assert "the columns job_id, submit_time, num_gpus, duration are missing" in str(caught.value)
    assert (
        "--map duration=THEIRS -o jobs.parquet` makes a job table of it, with its own names for THEIRS"
        in str(caught.value)
    )
    assert str(caught.value).endswith("found 'id, submitted, gpus, wall'")


def test_columns_of_a_frame_are_renamed_where_it_is_made() -> None:
    frame = pl.DataFrame({"id": ["a"], "submitted": [0.0], "gpus": [1], "runtime": [5.0]})
    with pytest.raises(InputError, match="submitted: rename it to submit_time, gpus: rename it to num_gpus"):
        ringbco.from_frame(frame)


def test_the_likeliest_name_is_taken() -> None:
    assert columns_meant(["submit_time"], ["time", "Submitted", "timestamp"]) == {"submit_time": "Submitted"}
    assert columns_meant(["duration"], ["start", "finish"]) == {"start_time": "start", "end_time": "finish"}
    assert columns_meant(["duration"], ["start", "runtime", "finish"]) == {"duration": "runtime"}
    assert columns_meant(["duration"], ["start"]) == {}


def test_what_a_run_left_is_no_job_table(invoke: Invoke, small_jobs: Path) -> None:
    assert invoke("replay", small_jobs.name, *REPLAY).returncode == 0
    run = invoke("inspect", "r/run.toml")
    assert run.stderr == (
        "error: r/run.toml: is the record of a run (TOML), not a job table; give the job table that was"
        " replayed: small.csv\n"
    )
    assert "is the jobs.parquet of a result, not a job table" in invoke("inspect", "r/jobs.parquet").stderr
    assert "JSON, not a job table" in invoke("inspect", "r/summary.json").stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.toml", "[[servers]]\ngpus = 8\n"),
        ("c", "[[servers]]  # of one kind\ngpus = 8\n"),
        ("spec.toml", 'command = "replay"\n[base]\ntrace = "small.csv"\n'),
        ("broken.toml", "command = \n"),
    ],
)
def test_toml_is_called_toml(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="is a TOML file, not a job table"):
        read_jobs(tmp_path / name)


@pytest.mark.parametrize("text", ['["a"]', "[1, 2]", "[[1]]", '{"a": 1}', '[{"jobid": 1}]'])
def test_json_is_still_called_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "j.csv").write_text(text)
    with pytest.raises(InputError, match="is JSON, not a job table"):
        read_jobs(tmp_path / "j.csv")


def test_read_jobs_names_the_conversion_of_a_raw_trace(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(POD_LIST)
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    assert str(caught.value).endswith(
        f"not a job table yet; convert it first: `ringbco convert openb {path} -o jobs.parquet`"
    )


PRINTED = {
    "is YAML of Kubernetes (kind PodList)": "apiVersion: v1\nkind: PodList\nitems:\n- spec: a\n",
    "is YAML, ": "# mine\njobs:\n  - id: 1\n    gpus: 2\n",
    "is YAML,": "---\n- id: 1, 2\n",
    "is the output of `scontrol show job`": "JobId=12 JobName=a\n   TRES=cpu=8,mem=64G,gres/gpu=2\n",
    "the output of `scontrol show job`": "JobId=12 JobName=a TRES=cpu=8,mem=64G,gres/gpu=2 NodeList=g1\n",
    "is the output of `squeue`": "  JOBID PARTITION  NAME USER ST NODELIST(REASON)\n   12   gpu  a  b R g1\n",
    "the output of `squeue`": "Sat Nov 28 19:00:00 2026\n  JOBID PARTITION  NAME  USER\n   12   gpu  a  b\n",
    "is the output of `sinfo`": "PARTITION AVAIL  TIMELIMIT  NODES\ngpu*  up  infinite  4\n",
    "is the output of `sacct` in columns": "JobID  JobName  State\n------ -------- ------\n1  a  COMPLETED\n",
    "is the output of `kubectl get pods`": "NAME   READY  STATUS   RESTARTS  AGE\na  1/1  Running  0  3h\n",
}


@pytest.mark.parametrize("said", PRINTED)
def test_text_that_is_no_table_is_called_what_it_is(said: str, invoke: Invoke) -> None:
    """The same one line from whatever reads it, and a table of the same words is still a table."""
    Path("given.txt").write_text(PRINTED[said])
    runs = [
        invoke("replay", "given.txt", *REPLAY),
        *(invoke("convert", source, "given.txt", "-o", "j.parquet") for source in ("csv", "swf", "philly")),
    ]
    for run in runs:
        assert (run.returncode, run.stdout, run.stderr) == (1, "", runs[0].stderr)
    assert said in runs[0].stderr
    assert "not a table of jobs; " in runs[0].stderr
    assert runs[0].stderr.count("\n") == 1


def test_a_line_with_a_colon_is_not_yet_yaml(invoke: Invoke) -> None:
    Path("given.txt").write_text("error: nothing found\nonce more\n")
    assert "YAML" not in invoke("convert", "csv", "given.txt", "-o", "j.parquet").stderr


@pytest.mark.parametrize("mark", [",", "\t", ";", "|"])
@pytest.mark.parametrize(
    "header", ["NAME STATUS num_gpus submit_time duration", "JOBID PARTITION gpus t run"]
)
def test_a_table_of_such_words_is_a_table(header: str, mark: str, invoke: Invoke) -> None:
    names = header.split()
    Path("t.csv").write_text(f"{mark.join(names)}\n{mark.join(('a', 'b', '1', '2', '3'))}\n")
    maps = [f"--map={ours}={theirs}" for ours, theirs in zip(
        ("job_id", "num_gpus", "submit_time", "duration"), (names[0], *names[2:]), strict=True
    )]  # fmt: skip
    assert invoke("convert", "csv", "t.csv", *maps, "-o", "j.parquet").returncode == 0
    assert read_jobs("j.parquet").frame.select("num_gpus", "submit_time", "duration").rows() == [
        (1, 2.0, 3.0)
    ]


@pytest.mark.parametrize("verb", [("replay", *REPLAY), ("convert", "csv", "-o", "j.parquet")])
def test_a_list_of_nodes_alone_is_called_so(verb: tuple[str, ...], invoke: Invoke) -> None:
    Path("nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,96000,393216,2,P100\n")
    Path("own.csv").write_text("Node,gpus,model\nn1,8,A100\n")
    head, *rest = verb if verb[0] == "replay" else ("convert", "csv", *verb[2:])
    first = (head,) if head == "replay" else (head, rest.pop(0))
    run = invoke(*first, "nodes.csv", *rest)
    assert (run.returncode, run.stderr) == (
        1,
        "error: nodes.csv: is an openb list of nodes (openb_node_list_*.csv), which holds no jobs; give it"
        " beside an openb list of pods (openb_pod_list_*.csv): `ringbco convert openb PODS nodes.csv"
        " -o jobs.parquet --cluster-out cluster.toml`\n",
    )
    run = invoke(*first, "own.csv", *rest)
    assert (run.returncode, run.stderr) == (
        1,
        "error: own.csv: looks like a list of nodes, not of jobs: it has no job_id, submit_time and duration;"
        " give the table of jobs, and the nodes as --cluster SxG or in a cluster file\n",
    )


def test_a_list_of_nodes_alone_to_its_own_source(invoke: Invoke) -> None:
    Path("nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,96000,393216,2,P100\n")
    run = invoke("convert", "openb", "nodes.csv", "-o", "j.parquet")
    assert (run.returncode, run.stderr) == (
        2,
        "error: convert openb: give an openb list of pods (openb_pod_list_*.csv) as well: nodes.csv is an"
        " openb list of nodes (openb_node_list_*.csv), which holds no jobs\n",
    )


@pytest.mark.parametrize(
    ("header", "option"),
    [
        ("job_id,submit_time,num_gpus,walltime", "duration=walltime"),
        ("job_id,submit_time,gpus,duration", "num_gpus=gpus"),
        ("JobIDRaw,submit_time,num_gpus,duration", "job_id=JobIDRaw"),
        ("job_id,Arrival Time,num_gpus,duration", "'submit_time=Arrival Time'"),
    ],
)
def test_one_missing_column_gets_the_whole_command_and_it_works(
    header: str, option: str, invoke: Invoke
) -> None:
    Path("mine.csv").write_text(f"{header}\n1,2,3,4\n")
    command = f"ringbco convert csv mine.csv --map {option} -o jobs.parquet"
    for run in (
        invoke("replay", "mine.csv", *REPLAY), invoke("convert", "csv", "mine.csv", "-o", "j.parquet")
    ):  # fmt: skip
        assert (run.returncode, run.stderr.count("\n")) == (1, 1)
        assert f"`{command}`" in run.stderr
    assert invoke(*shlex.split(command)[1:]).returncode == 0
    made = read_jobs("jobs.parquet").frame.select("job_id", "submit_time", "num_gpus", "duration")
    assert made.rows() == [("1", 2.0, 3, 4.0)]


def test_the_command_keeps_the_maps_that_were_given(invoke: Invoke) -> None:
    Path("mine.csv").write_text("a,submitted,gpus,run\n1,2,3,4\n")
    run = invoke(
        "convert", "csv", "mine.csv", "--map", "job_id=a", "--map", "duration=run", "-o", "j.parquet"
    )
    assert (
        "`ringbco convert csv mine.csv --map job_id=a --map duration=run --map submit_time=submitted --map"
        " num_gpus=gpus -o jobs.parquet`"
    ) in run.stderr


def test_an_openb_list_without_times_says_what_it_lacks(invoke: Invoke) -> None:
    Path("pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0000,1,1,1,1000\n")
    run = invoke("convert", "openb", "pods.csv", "-o", "jobs.parquet")
    assert run.returncode == 1
    assert run.stderr == (
        "error: pods.csv: is an openb list of pods (openb_pod_list_*.csv) without the columns pod_phase,"
        " creation_time, deletion_time, scheduled_time; its columns are name, cpu_milli, memory_mib, num_gpu,"
        " gpu_milli\n"
    )


def test_a_slot_without_its_clock_is_refused(invoke: Invoke, small_jobs: Path) -> None:
    words = "option slot: 10.0: expected it together with clock slot; the continuous clock has no slots"
    for verb in (("replay",), ("compare", "--policy", "fifo", "--policy", "sjf")):
        run = invoke(verb[0], small_jobs.name, *REPLAY, *verb[1:], "--slot", "10")
        assert (run.returncode, run.stderr) == (2, f"error: {words}\n")
    with pytest.raises(UsageError, match=words):
        checked({"slot": 10.0})
    with pytest.raises(UsageError, match=words):
        ringbco.compare(small_jobs, "2x8", ["fifo"], slot=10.0)
    assert checked({"clock": "slot", "slot": 10.0})["slot"] == 10.0
    assert not (small_jobs.parent / "r").exists()


def test_in_a_sweep_a_slot_needs_one_run_with_its_clock(tmp_path: Path, small_jobs: Path) -> None:
    base = {"trace": str(small_jobs), "cluster": "2x8", "slot": 20.0}
    with pytest.raises(InputError, match=r"base\.slot: 20: expected it together with clock slot"):
        ringbco.sweep({"base": base}, tmp_path / "one")
    spec = {"base": base, "grid": {"clock": ["slot", "continuous"]}}
    swept = ringbco.sweep(spec, tmp_path / "both").frame
    slots, continuous = (
        ringbco.replay(small_jobs, "2x8", clock="slot", slot=20.0),
        ringbco.replay(small_jobs, "2x8"),
    )
    assert swept["error"].null_count() == 2
    assert swept["mean_jct"].to_list() == [slots.summary["mean_jct"], continuous.summary["mean_jct"]]


@pytest.mark.parametrize(
    "twice",
    [("--policy", "fifo", "--policy", "sjf"), ("--seed", "1", "--seed=1"), ("-o", "q"), ("--out", "q")],
)
def test_a_single_option_given_twice_is_refused(
    invoke: Invoke, small_jobs: Path, twice: tuple[str, ...]
) -> None:
    run = invoke("replay", small_jobs.name, *REPLAY, *twice)
    assert run.returncode == 2
    assert run.stderr.startswith("error: option ")
    assert "given twice: expected it once" in run.stderr
    assert ("ringbco compare" in run.stderr) == (twice[0] == "--policy")
    assert [path.name for path in Path.cwd().iterdir()] == [small_jobs.name]
    # Switches say the same twice, and what is repeatable is repeated.
    assert invoke("replay", small_jobs.name, *REPLAY, "-q", "-q", "--force", "--force").returncode == 0
    maps = ("--map", "job_id=job_id", "--map", "num_gpus=num_gpus")
    assert invoke("convert", "csv", small_jobs.name, *maps, "-o", "j.parquet").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("replay", "small.csv", "--cluster", "2x8", "-o", "r"), 0),
        (("inspect", "small.csv", "--json"), 0),
        (("--help",), 0),
        (("policies",), 0),
        (("inspect", "none.csv"), 1),
        (("replay", "small.csv", "--cluster", "2x8", "-o", "r", "--policy", "none"), 2),
    ],
)
def test_a_reader_that_leaves_early_changes_no_status(
    tmp_path: Path, small_jobs: Path, arguments: tuple[str, ...], status: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `| head` does, only sooner
    run = subprocess.run(
        [sys.executable, "-m", "ringbco", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert run.returncode == status
    assert run.stderr.count("\n") == (status != 0)
    assert (run.stderr == "") == (status == 0)
    assert (tmp_path / "r" / "run.toml").exists() == (
        arguments[0] == "replay" and "-o" in arguments and not status
    )


@only_linux  # has /dev/full
def test_a_full_disk_is_still_told_once(tmp_path: Path, small_jobs: Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "ringbco", "inspect", small_jobs.name],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr == (
        "error: standard output: No space left on device; free some space or write elsewhere\n"
    )


def fitted(width: int) -> tuple[list[str], list[list[str]]]:
    table = Fitted("virtual cluster", "jobs", "share of work", "median run", "days above 100%")
    rows = [["a long name", "4,363", "39.6%", "13.2 min", "0"], ["ee9e8c", "909", "8.0%", "119.5 min", "12"]]
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue().splitlines(), rows


@pytest.mark.parametrize("width", [24, 30, 40, 60, 80, 120])
def test_figures_are_whole_at_any_width(width: int) -> None:
    lines, rows = fitted(width)
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    for row in rows:
        for figure in row[1:]:
            assert re.search(rf"(?<!\S){re.escape(figure)}(?!\S)", shown), figure
        for word in row[0].split():
            assert re.search(rf"(?<!\S){re.escape(word)}(?!\S)", shown), word
    assert sum("jobs" in line for line in lines) == 1
    assert (shown.count("ee9e8c") == 1) == (width >= 60)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_inspect_breaks_no_word(invoke: Invoke, columns: int) -> None:
    Path("jobs.csv").write_text(
        "job_id,submit_time,num_gpus,duration,user,vc,status\n"
        + "".join(
            f"j{n},{n * 977},{1 + n % 8},{n * 131 + 30},user-{n % 5},vc{n % 3},Killed\n" for n in range(60)
        )
    )
    os.environ["COLUMNS"] = "400"
    words = set(invoke("inspect", "jobs.csv", "--shape", "philly").stdout.split())
    os.environ["COLUMNS"] = str(columns)  # the fixture puts it back
    run = invoke("inspect", "jobs.csv", "--shape", "philly")
    assert max(map(len, run.stdout.splitlines())) <= columns
    rules = {word for word in run.stdout.split() if set(word) == {"─"}}
    assert set(run.stdout.split()) - rules <= words


def test_much_time_in_pauses_is_worth_a_word(invoke: Invoke, small_jobs: Path) -> None:
    line = ("replay", small_jobs, "--cluster", "1x8", "--start-cost", "10d")
    done = invoke(*line, "--policy", "srtf", "-o", "r")
    assert done.returncode == 0
    assert re.search(
        r"^note: srtf: \d+ % of the GPU time that jobs held went by in pauses", done.stderr, re.M
    )
    assert "pauses" not in invoke(*line[:-1], "1s", "--policy", "srtf", "-o", "s").stderr
    saving = ("--checkpoint-interval", "1min", "--checkpoint-cost", "30s")
    output = invoke(*line[:4], "--policy", "fifo", *saving, "-o", "t").stderr
    assert re.search(r"^note: fifo: \d+ % .* in pauses and checkpoints: save less often", output, re.M)
