"""Runs with names in a sweep: `--run NAME="..."`, `[runs.NAME]`, and a dictionary in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from frames import busy_jobs
from ringbco import compare, sweep
from ringbco.errors import InputError, UsageError
from ringbco.reports import report
from ringbco.reports.sweep_points import read_sweep
from ringbco.run.seeds import Seeds
from ringbco.sweeps.spec import read_spec
from ringbco.sweeps.targets import asked

RUNS: dict[str, Any] = {
    "fair": {"policy": "fifo", "order": "fairshare", "queue": "easy"},
    "a/b": {"policy": "tiresias", "thresholds": [600.0, 3_000.0]},
    "plain": "fifo",
}
TEXTS = ["fair=fifo --order fairshare --queue easy", "a/b=tiresias --thresholds 600,3000", "plain=fifo"]
BASE = '[base]\ntrace = "jobs.csv"\ncluster = "4x4"\n'
GRID = "[grid]\nload = [0.5, 0.9]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With jobs.csv and spec.toml, a grid of two loads."""
    busy_jobs().write_csv(tmp_path / "jobs.csv")
    (tmp_path / "spec.toml").write_text(BASE + GRID)
    return tmp_path


def test_each_run_is_tried_at_every_point_of_the_grid(folder: Path) -> None:
    result = sweep(folder / "spec.toml", folder / "out", runs=RUNS)
    frame = result.frame
    assert frame.select("run", "load").rows() == [(name, load) for load in (0.5, 0.9) for name in RUNS]
    assert frame.columns[0] == "run"
    assert frame.filter(run="fair").select("policy", "order", "queue").unique().rows() == [
        ("fifo", "fairshare", "easy")
    ]
    for name, own in RUNS.items():
        settings = {"policy": own} if isinstance(own, str) else own
        alone = sweep(
            {
                "base": {"trace": str(folder / "jobs.csv"), "cluster": "4x4", **settings},
                "grid": {"load": [0.5, 0.9]},
            },
            folder / f"alone-{settings['policy']}-{len(settings)}",
        ).frame
        assert frame.filter(run=name)["mean_jct"].equals(alone["mean_jct"]), name
    # A name decides nothing: under another one nothing is run again.
    renamed = {f"{name} too": own for name, own in RUNS.items()}
    again = sweep(folder / "spec.toml", folder / "out", runs=renamed)
    assert (again.done, again.kept) == (0, 6)
    assert again.frame["run"].to_list()[:3] == list(renamed)


def test_three_ways_to_name_a_run_are_one(folder: Path, invoke: Invoke) -> None:
    sweep(folder / "spec.toml", folder / "python", runs=RUNS)
    tables = "".join(
        f'[runs."{name}"]\n'
        + "".join(
            f"{key} = {value!r}\n"
            for key, value in ({"policy": own} if isinstance(own, str) else own).items()
        )
        for name, own in RUNS.items()
    )
    (folder / "named.toml").write_text(BASE + GRID + tables)
    words = [word for text in TEXTS for word in ("--run", text)]
    assert invoke("sweep", "spec.toml", *words, "-o", "typed").returncode == 0
    assert invoke("sweep", "named.toml", "-o", "written").returncode == 0
    for name in ("typed", "written"):
        for file in ("sweep.json", "runs.parquet"):
            times = ["engine_seconds", "total_seconds", "jobs_per_second"]
            if file == "sweep.json":
                assert (folder / name / file).read_bytes() == (folder / "python" / file).read_bytes()
            else:
                found, expected = (pl.read_parquet(folder / one / file) for one in (name, "python"))
                assert found.drop(times, strict=False).equals(expected.drop(times, strict=False))
    # sweep.json has what repeats the sweep.
    spec = json.loads((folder / "typed/sweep.json").read_text())["spec"]
    spec["base"]["trace"] = str(folder / "jobs.csv")
    assert sweep(spec, folder / "typed").done == 0


def test_paths_in_a_text_start_where_the_command_does(folder: Path, invoke: Invoke) -> None:
    (folder / "specs").mkdir()
    (folder / "specs/spec.toml").write_text(BASE.replace("jobs.csv", "../jobs.csv") + GRID)
    (folder / "down.csv").write_text("server,down_at,up_at\n0,0,1000\n")
    (folder / "c.toml").write_text("[[servers]]\ncount = 4\ngpus = 4\n")
    (folder / "late.py").write_text(
        "import ringbco\n\nclass Late(ringbco.KeyPolicy):\n"
        "    def key(self, state, rows):\n        return -rows\n"
    )
    texts = ["down=fifo --outages down.csv", "late=late.py:Late", "file=fifo --cluster c.toml", "up=fifo"]
    done = invoke(
        "sweep", "specs/spec.toml", *(word for text in texts for word in ("--run", text)), "-o", "out"
    )
    assert (done.returncode, done.stderr) == (0, "")
    frame = pl.read_parquet(folder / "out/runs.parquet").filter(load=0.5)
    assert frame["error"].null_count() == 4
    means = dict(frame.select("run", "mean_jct").iter_rows())
    assert means["file"] == means["up"]
    assert len({means[name] for name in ("up", "down", "late")}) == 3


def test_names_are_told_wherever_points_are(folder: Path, invoke: Invoke) -> None:
    words = [word for text in TEXTS for word in ("--run", text)]
    given = ("sweep", "spec.toml", *words, "-o", "out", "--seeds", "6", "--baseline", "plain")
    done = invoke(*given, "--table", "md", "--figures", "svg")
    assert done.returncode == 0, done.stderr
    over = pl.read_parquet(folder / "out/seeds.parquet")
    assert over["run"].unique(maintain_order=True).to_list() == list(RUNS)
    plain = over.filter(run="plain", measure="mean_jct")
    assert plain["verdict"].null_count() == plain.height
    told = json.loads(invoke(*given, "--json").stdout)["sentences"]
    assert told
    assert all("plain" in line for line in told)
    # The same verdicts as a comparison's of these runs.
    (folder / "one.toml").write_text(BASE)
    one = sweep(folder / "one.toml", folder / "one", runs=RUNS, seeds=Seeds(6), baseline="plain").by_point
    same = {**RUNS, "a/b": {"policy": "tiresias", "thresholds": (600.0, 3_000.0)}}
    made = compare(folder / "jobs.csv", "4x4", runs=same, baseline="plain")
    assert one is not None
    measure = next(row for row in made.display_rows if row.key == "mean_jct")
    assert list(one.sentences()) == [line for name in RUNS if (line := made.sentence(name, measure))]
    page = Path(report(folder / "out", folder / "page.html").path).read_text()
    table = (folder / "out-table.md").read_text()
    for text in (done.stdout, table, page):
        assert all(name in text for name in RUNS)
        assert "fairshare" not in text or text is page  # where the page says what each name stands for
    assert "order fairshare" in page
    assert (folder / "out-run-mean-jct.svg").is_file()
    runs = read_sweep(folder / "out")
    assert [(axis.name, axis.values) for axis in runs.axes] == [("run", tuple(RUNS)), ("load", (0.5, 0.9))]


def test_a_target_is_sought_for_each_run(folder: Path) -> None:
    document = {
        "base": {"trace": str(folder / "jobs.csv")},
        "runs": {"fair": RUNS["fair"], "s": {"policy": "sjf"}},
    }
    search = asked(document, Seeds(), "mean_wait", "2min", "cluster=2x4..9x4")
    spec, result, found = search.run(lambda wanted: sweep(wanted, folder / "out"))
    assert spec.varied == ("run", "cluster")
    assert [one.where for one in found] == ["run fair", "run s"]
    assert result.frame["run"].unique(maintain_order=True).to_list() == ["fair", "s"]
    assert [axis.name for axis in read_sweep(folder / "out").axes] == ["run", "cluster"]
    told = json.loads((folder / "out/sweep.json").read_text())["spec"]
    assert read_spec(told).varied == spec.varied
    for name, one in zip(("fair", "s"), found, strict=True):
        alone = {"base": {"trace": str(folder / "jobs.csv"), **document["runs"][name]}}
        (expected,) = asked(alone, Seeds(), "mean_wait", "2min", "cluster=2x4..9x4").run(
            lambda wanted, name=name: sweep(wanted, folder / name)  # type: ignore[misc]
        )[2]
        assert one.best == expected.best


def test_under_one_name_policies_are_compared(folder: Path) -> None:
    base = {"trace": str(folder / "jobs.csv"), "cluster": "4x4"}
    spec = {"base": base, "grid": {"policy": ["fifo", "sjf"]}, "runs": {"easy": {"queue": "easy"}}}
    result = sweep(spec, folder / "out", seeds=Seeds(6), baseline="sjf")
    assert result.frame.select("run", "policy", "queue").unique(maintain_order=True).rows() == [
        ("easy", "fifo", "easy"),
        ("easy", "sjf", "easy"),
    ]
    assert result.by_point is not None
    (said,) = result.by_point.sentences()
    assert said.startswith("run easy: fifo")


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ('[runs.""]\npolicy = "sjf"', "runs.", "expected a name in quotes, not empty; write [runs.NAME]"),
        ('[runs." "]\npolicy = "sjf"', "runs. ", "expected a name in quotes, not empty; write [runs.NAME]"),
        ("[runs]", "runs", "expected at least one run; write [runs.NAME]"),
        ('[runs]\npolicy = "sjf"', "runs", "expected a list of tables; write [[runs]], or [runs.NAME]"),
        (
            "[runs.a]\nload = 0.5",
            "runs.a.load",
            "expected no setting that [grid] varies; leave one of the two",
        ),
        ('[runs.a]\npolicy = "sfj"', "runs.a.policy", "did you mean sjf?"),
        ("[runs.a]\nkapa = 1", "runs.a.kapa", "did you mean kappa?"),
        (
            '[[runs]]\nrun = "a"\nkappa = 1',
            "grid",
            "expected no [grid] beside [[runs]] with names; write [runs.NAME]",
        ),
    ],
)
def test_what_is_wrong_with_a_name_is_said(folder: Path, text: str, key: str, said: str) -> None:
    (folder / "spec.toml").write_text(BASE + GRID + text + "\n")
    with pytest.raises(InputError) as caught:
        sweep(folder / "spec.toml", folder / "out")
    assert (caught.value.key, caught.value.file) == (key, str(folder / "spec.toml"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "out").exists()


def test_a_grid_that_is_none_is_said_first(folder: Path) -> None:
    with pytest.raises(InputError, match="grid: 1: expected a table"):
        read_spec({"base": {}, "grid": 1, "runs": {"a": {"kappa": 1}}})


def test_a_list_names_all_its_runs_or_none(folder: Path) -> None:
    base = {"trace": str(folder / "jobs.csv"), "cluster": "4x4"}
    named = [{"run": "a", "kappa": 1}, {"run": "b", "kappa": 2, "policy": "sjf-bco"}]
    read = read_spec({"base": base, "runs": named})
    assert (read.varied, [run.settings["run"] for run in read.runs]) == (("run",), ["a", "b"])
    with pytest.raises(InputError, match=r"runs\[2\]\.run: expected a name in quotes"):
        read_spec({"base": base, "runs": [*named[:1], {"kappa": 2}]})


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["a=sjf", "a=ff"], "option run: 'a': expected each name once"),
        (["=sjf"], "option run: '=sjf': expected a name before the =, such as small=\"sjf-bco --kappa 4\""),
        (
            ["a=gavel -P round=60"],
            "option run: 'a': -P: leave it out, a sweep sets no fields of a policy",
        ),
        (["a=sjf --sample 5s"], "option run: 'a': --sample: leave it out, a sweep keeps no such table"),
        (
            ["a=sjf --recorded-cluster 2x4"],
            "option run: 'a=sjf --recorded-cluster 2x4': --recorded-cluster: leave it out, every run has the"
            " same jobs",
        ),
    ],
)
def test_a_text_that_is_no_run_of_a_sweep_is_one_line(
    folder: Path, invoke: Invoke, texts: list[str], said: str
) -> None:
    done = invoke("sweep", "spec.toml", *(word for text in texts for word in ("--run", text)), "-o", "out")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}\n")
    assert not (folder / "out").exists()


def test_names_that_are_there_already_are_refused(folder: Path) -> None:
    base = {"trace": str(folder / "jobs.csv"), "cluster": "4x4"}
    with pytest.raises(UsageError, match="'a': expected each name once; the specification has it too"):
        read_spec({"base": base, "runs": {"a": {"policy": "sjf"}}}, runs={"a": "fifo"})
    with pytest.raises(UsageError, match=r"the specification lists \[\[runs\]\] of its own"):
        read_spec({"base": base, "runs": [{"policy": "sjf"}]}, runs={"a": "fifo"})
    with pytest.raises(UsageError, match="'x': expected one of fair, plain"):
        sweep({"base": base}, folder / "out", runs={"fair": RUNS["fair"], "plain": "fifo"}, baseline="x")
    own = {"base": base, "runs": {"a": {"cluster": "2x4"}}}
    search = asked(own, Seeds(), "mean_wait", "2min", "cluster=2x4..9x4")
    with pytest.raises(UsageError, match="varies cluster itself"):
        search.run(lambda _: pytest.fail("it ran"))
    assert not (folder / "out").exists()
