"""A sweep's specification: what it asks for, what is wrong with it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import polars as pl
import pytest

from conftest import GRID
from ringbco.errors import InputError
from ringbco.run.plan import plan
from ringbco.run.replay import replay
from ringbco.sweeps.run import sweep
from ringbco.sweeps.spec import _OWN_KEYS, options_of, read_spec
from ringbco.trace.jobs import read_jobs

DOCS = Path(__file__).parents[2] / "docs" / "sweeps.md"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_grid_varies_its_last_key_fastest_and_the_list_follows(spec: Path) -> None:
    more = GRID + '\n[[runs]]\npolicy = "ls"\nkappa = 2\n[[runs]]\nseed = 7\n'
    read = read_spec(write(spec, more))
    chosen = [(run.settings["policy"], run.settings["seed"], run.settings["kappa"]) for run in read.runs]
    assert chosen == [
        *((policy, seed, 8) for policy in ("fifo", "sjf", "sjf-bco") for seed in (0, 1)),
        ("ls", 0, 2),
        ("sjf-bco", 7, 8),
    ]
    assert read.varied == ("policy", "kappa", "seed")
    settings = read.runs[0].settings
    assert (settings["order"], settings["placement"], settings["queue"]) == ("fifo", "consolidate", "strict")
    assert (settings["servers"], settings["gpus"], settings["inter_bandwidth"]) == (2, 16, 12.5e9)
    assert (settings["load"], settings["trace"], settings["cluster"]) == (None, "small.csv", "2x8")
    assert len({run.key for run in read.runs}) == 8


def test_the_examples_of_the_docs(spec: Path, tmp_path: Path) -> None:
    page = DOCS.read_text()
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "small.csv").rename(tmp_path / "philly.parquet")
    for example, count in zip(examples, (19, 6), strict=True):
        assert len(read_spec(write(spec, example)).runs) == count
        assert f"= {count} runs" in page


def test_the_docs_name_every_setting() -> None:
    rows = re.findall(r"^\| ([a-z_0-9, ]+) \|", DOCS.read_text(), re.MULTILINE)
    named = {name.strip() for row in rows for name in row.split(",")}
    options = re.findall(r"^\| `--([a-z0-9-]+)", (DOCS.parent / "cli/replay.md").read_text(), re.MULTILINE)
    assert set(_OWN_KEYS) <= named
    assert {name.replace("_", "-") for name in options_of("replay")} <= {*options}


def test_base_alone_is_one_run(spec: Path) -> None:
    read = read_spec(write(spec, '[base]\ntrace = "small.csv"\ncluster = "2x8"\n'))
    assert len(read.runs) == 1
    assert read.varied == ()


def test_a_specification_from_python(small_jobs: Path) -> None:
    document = {"base": {"trace": small_jobs, "cluster": "2x8"}, "grid": {"kappa": [1, 2]}}
    assert [run.settings["kappa"] for run in read_spec(document).runs] == [1, 2]


def test_every_option_of_replay_can_be_swept() -> None:
    parameters = set(inspect.signature(replay).parameters)
    never = {"jobs", "cluster", "recorded_cluster", "sample", "workload", "progress", "parameters"}
    never |= {"allocations", "decisions"}
    assert {option.parameter for option in options_of("replay").values()} == parameters - never
    parameters = set(inspect.signature(plan).parameters)
    assert {option.parameter for option in options_of("plan").values()} == parameters - never - {
        "threads",
        "clock",  # a plan has one
    }
    assert options_of("replay")["lambda"].kind is float
    assert options_of("replay")["order"].kind is str


def test_a_key_is_of_what_decides_a_result(spec: Path, tmp_path: Path) -> None:
    def key(text: str) -> str:
        (run,) = read_spec(write(spec, text)).runs
        return run.key

    (tmp_path / "c.toml").write_text("[[servers]]\ncount = 2\ngpus = 8\n")
    base = '[base]\ntrace = "small.csv"\ncluster = "2x8"\n'
    first = key(base)
    # Defaults written out, another spelling, a cluster and a trace by other names: the same run.
    assert key(base + 'policy = "sjf-bco"\nlambda = 1\nplacement = "sjf-bco"\nalpha = 0.3\n') == first
    assert key(base + 'outages = "none"\nquota = "none"\nservices = "none"\ntables = "none"\n') == first
    assert key(base.replace("2x8", "c.toml")) == first
    (tmp_path / "copy.csv").write_bytes((tmp_path / "small.csv").read_bytes())
    assert key(base.replace("small", "copy")) == first
    others = [base + line for line in ("kappa = 9", "inter-bandwidth = 1e9", "load = 0.5", "seed = 1")]
    (tmp_path / "c.toml").write_text("[[servers]]\ncount = 3\ngpus = 8\n")
    others.append(base.replace("2x8", "c.toml"))
    keys = [key(text) for text in others]
    (tmp_path / "copy.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,1,1\n")
    keys.append(key(base.replace("small", "copy")))
    assert len({first, *keys}) == 7


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("[grids]\nkappa = [1]", "grids", "did you mean grid?"),
        ("[grid]\npolcy = ['fifo']", "grid.polcy", "did you mean policy?"),
        ("[grid]\njobs = ['small.csv']", "grid.jobs", "did you mean trace?"),
        ("[grid]\npolicy = ['fifo', 'sfj']", "grid.policy[2]", "did you mean sjf?"),
        ("[grid]\npolicy = 'fifo'", "grid.policy", "a list of at least one value"),
        ("[grid]\npolicy = []", "grid.policy", "a list of at least one value"),
        ("[grid]\nkappa = [1, -1]", "grid.kappa[2]", "an integer from 0"),
        ("[grid]\nkappa = [1.5]", "grid.kappa[1]", "expected an integer"),
        ("[grid]\nkappa = [true]", "grid.kappa[1]", "expected an integer"),
        ("[grid]\nlambda = ['2']", "grid.lambda[1]", "expected a number"),
        ("[grid]\nlambda = [0.5]", "grid.lambda[1]", "finite number >= 1"),
        ("[grid]\nalpha = [-1]", "grid.alpha[1]", "finite number >= 0"),
        ("[grid]\nload = [0.5, 0]", "grid.load[2]", "finite number > 0"),
        ("[grid]\ncluster = ['8y8']", "grid.cluster[1]", "SxG such as 32x8"),
        ("[grid]\ncluster = [8]", "grid.cluster[1]", "SxG such as 32x8"),
        ("[grid]\ntrace = ['none.csv']", "grid.trace[1]", "No such file"),
        ("[grid]\nxi-1 = [0.5]", "grid.xi_1", "did you mean xi1?"),
        ("[grid]\ninter-bandwidth = [1e9]\ninter_bandwidth = [1e9]", "grid", "one spelling"),
        ("[grid]\nvc = ['pool', 'spilt']", "grid.vc[2]", "one of split, pool"),
        ("[[runs]]\nkappa = [1, 2]", "runs[1].kappa", "a list belongs under [grid]"),
        ("[[runs]]\nqueue = 'strict'\n[[runs]]\nqueue = 'strikt'", "runs[2].queue", "did you mean strict?"),
        ("[runs]\nqueue = 'strict'", "runs", "a list of tables"),
        ("runs = [1]", "runs[1]", "a table"),
        ("grid = 1", "grid", "a table"),
        ("command = 'replai'", "command", "expected one of replay"),
        ("[grid]\nseed = [" + "0," * 1001 + "]\nkappa = [" + "0," * 1000 + "]", "grid", "at most 1,000,000"),
    ],
)
def test_what_is_wrong_is_named(spec: Path, tmp_path: Path, text: str, key: str, said: str) -> None:
    base = '[base]\ntrace = "small.csv"\ncluster = "2x8"\n'
    write(spec, base + text if text.startswith("[") else f"{text}\n{base}")
    with pytest.raises(InputError) as error:
        sweep(spec, tmp_path / "out")
    assert error.value.file == str(spec)
    assert error.value.key == key
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("missing", "key"), [("trace", "base.trace"), ("cluster", "base.cluster")])
def test_a_run_needs_a_trace_and_a_cluster(spec: Path, missing: str, key: str) -> None:
    kept = {"trace": "small.csv", "cluster": "2x8"}
    kept.pop(missing)
    write(spec, "[base]\n" + "".join(f'{name} = "{value}"\n' for name, value in kept.items()))
    with pytest.raises(InputError, match="there is none") as error:
        read_spec(spec)
    assert error.value.key == key


def test_a_broken_cluster_file_speaks_for_itself(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[[servers]]\ngpus = 0\n")
    write(spec, GRID.replace("2x8", "c.toml"))
    with pytest.raises(InputError, match=r"c\.toml: servers\[1\]\.gpus"):
        read_spec(spec)


@pytest.mark.parametrize(
    ("data", "said"), [(b"[grid", "not valid TOML"), (b"\xff\xfe", "not valid TOML"), (None, "No such file")]
)
def test_no_specification_at_all(tmp_path: Path, data: bytes | None, said: str) -> None:
    path = tmp_path / "spec.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        read_spec(path)
    with pytest.raises(InputError, match="is a folder"):
        read_spec(tmp_path)


def test_a_plan_is_swept_by_its_own_options(spec: Path, tmp_path: Path) -> None:
    base = 'command = "plan"\n[base]\ntrace = "small.csv"\ncluster = "2x8"\nslot = 10.0\n[grid]\n'
    write(spec, base + 'policy = ["sjf-bco", "ff"]\ndispatch = ["idle", "reserve"]\n')
    frame = sweep(spec, tmp_path / "out").frame
    assert frame["error"].null_count() == 4
    for row in frame.iter_rows(named=True):
        planned = plan(
            tmp_path / "small.csv", "2x8", policy=row["policy"], dispatch=row["dispatch"], slot=10.0
        )
        for name in ("makespan", "theta", "w_max", "mean_jct"):
            assert row[name] == planned.summary[name]
        # What was asked for (nothing) and what the planner chose.
        assert row["kappa"] is None
        assert row["chosen_kappa"] == planned.summary["kappa"]
    write(spec, base + 'dispatch = ["idel"]')
    with pytest.raises(
        InputError,
        match=r"grid.dispatch\[1\]: idel: expected .* did you mean idle\? Else one of idle, reserve",
    ):
        read_spec(spec)
    write(spec, base + "quantum = [1]")
    with pytest.raises(InputError, match=r"grid.quantum: expected only the keys trace, .*, dispatch"):
        read_spec(spec)


def test_options_of_several_values_and_of_some_policies(spec: Path, tmp_path: Path) -> None:
    table = read_jobs(tmp_path / "small.csv").frame
    table.with_columns(deadline=pl.col("submit_time") + 400.0).write_csv(tmp_path / "small.csv")
    text = GRID.split("[grid]", maxsplit=1)[0] + "[grid]\n"
    write(spec, text + 'policy = ["edf", "tiresias"]\nadmission = [true]\nthresholds = [[60], [60, 600.5]]\n')
    frame = sweep(spec, tmp_path / "out").frame
    assert frame["thresholds"].to_list() == [[60.0], [60.0, 600.5]] * 2
    # Admission means nothing to tiresias, nor thresholds to edf: each does without.
    assert frame["error"].to_list() == [None] * 4
    assert frame["mean_jct"][0] == frame["mean_jct"][1] != frame["mean_jct"][2]
    runs = read_spec(spec).runs
    assert runs[0].key == runs[1].key
    assert sweep(spec, tmp_path / "again").done == 3
    assert [run.options["admission"] for run in runs] == [True, True, False, False]
    assert [run.settings["admission"] for run in runs] == [True] * 4
    plain = replay(tmp_path / "small.csv", "2x8", policy="tiresias", thresholds=[60.0])
    assert frame["mean_jct"][2] == plain.summary["mean_jct"]
    write(spec, text + 'policy = ["fifo", "tiresias"]\nadmission = [true]\n')
    with pytest.raises(
        InputError, match=r"grid.admission\[1\]: True: expected policy edf; tiresias ignores it$"
    ):
        read_spec(spec)


@pytest.mark.parametrize(
    ("policies", "line", "said"),
    [
        (["fifo", "tiresias"], "interval = 30", None),
        (["fifo", "srtf"], "interval = 30", None),  # a setting that nobody heeds does no harm
        (["fifo", "srtf"], "aging = 30", "base.aging: 30: expected policy sjf, .*; srtf ignores it"),
        (["tiresias", "time-slice"], "interval = 30\nquantum = 90\nthresholds = [60]", None),
        (["srtf", "sjf"], 'queue = "skip"', None),
        (["srtf", "ftf"], 'queue = "skip"', "base.queue: skip: expected .*ranks all jobs itself"),
        (["fifo", "ls"], "kappa = 2", None),
        (["fifo", "ls"], 'kappa = 2\nplacement = "sjf-bco"', None),
        (["time-slice"], "quantum = 30", "base.quantum: 30: expected a quantum longer"),
    ],
)
def test_one_value_for_several_policies(
    spec: Path, tmp_path: Path, policies: list[str], line: str, said: str | None
) -> None:
    """Each policy takes what it uses; what none of them uses is refused before anything runs."""
    text = f'[base]\ntrace = "small.csv"\ncluster = "2x8"\n{line}\n[grid]\npolicy = {policies}\n'
    write(spec, text)
    if said is not None:
        with pytest.raises(InputError, match=said):
            read_spec(spec)
        return
    assert sweep(spec, tmp_path / "out").frame["error"].to_list() == [None] * len(policies)


def test_a_number_in_quotes_shows_them(spec: Path) -> None:
    write(spec, '[base]\ntrace = "small.csv"\ncluster = "2x8"\nkappa = "8"\n')
    with pytest.raises(InputError, match=r'base\.kappa: "8": expected an integer$'):
        read_spec(spec)


def test_auto_is_a_plans_default(spec: Path) -> None:
    head = 'command = "plan"\n[base]\ntrace = "small.csv"\ncluster = "2x8"\nslot = 10.0\n'
    plain, named = (
        read_spec(write(spec, head + more)).runs[0] for more in ("", 'kappa = "auto"\nhorizon = "auto"\n')
    )
    assert plain.key == named.key
    write(spec, head.replace("plan", "replay").replace("slot = 10.0", 'kappa = "auto"'))
    with pytest.raises(InputError, match=r'base\.kappa: "auto": expected an integer'):
        read_spec(spec)
