"""Names of runs: `--run NAME="..."`, and a dictionary in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Invoke
from ringbco import compare, replay
from ringbco.cli.runs import named_runs
from ringbco.errors import UsageError
from ringbco.reports import report
from ringbco.reports.reading import read_results
from ringbco.result.comparison import Comparison
from ringbco.result.outcome import Outcome

FAIR = {"policy": "fifo", "order": "smallest", "queue": "easy"}


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("fair=fifo --order smallest --queue easy", "fair", FAIR),
        ("fair=fifo --order=smallest --queue=easy", "fair", FAIR),
        ("fair= fifo --order smallest --queue easy ", "fair", FAIR),
        ("a/b:c=sjf", "a/b:c", {"policy": "sjf"}),
        ("fifo=sjf", "fifo", {"policy": "sjf"}),
        # Without a name the text is one: an = in a later word is of an option's value.
        ("fifo --order smallest", "fifo --order smallest", {"policy": "fifo", "order": "smallest"}),
        ("fifo --queue=easy", "fifo --queue=easy", {"policy": "fifo", "queue": "easy"}),
        ("fifo --outages draw:mtbf=2d,mttr=1h", None, {"policy": "fifo", "outages": "draw:mtbf=2d,mttr=1h"}),
        ("gavel -P round=60", None, {"policy": "gavel", "parameters": {"round": "60"}}),
        ("n=gavel -P round=60", "n", {"policy": "gavel", "parameters": {"round": "60"}}),
    ],
)
def test_a_name_stands_before_the_first_equals_sign_of_the_first_word(
    text: str, name: str | None, settings: dict[str, Any]
) -> None:
    assert named_runs([text]) == {text if name is None else name: settings}


@given(st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="=-'\""), min_size=1))
def test_any_name_without_spaces_names_the_same_run(name: str) -> None:
    text = "fifo --order smallest --queue easy"
    assert named_runs([f"{name}={text}", text]) == {name: FAIR, text: FAIR}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["=sjf"], "'=sjf': expected a name before the =, such as small=\"sjf-bco --kappa 4\""),
        (["a="], "'a=': expected a policy after the name, such as small=\"sjf-bco --kappa 4\""),
        (["a= "], "'a= ': expected a policy after the name, such as small=\"sjf-bco --kappa 4\""),
        (
            ["my fair=sjf"],
            "'my fair=sjf': expected a name without spaces, or options with --, such as"
            ' small="sjf-bco --kappa 4"',
        ),
        (
            ["-a=sjf"],
            "'-a=sjf': expected a policy, then options of replay, such as \"sjf-bco --kappa 4\"",
        ),
        (
            ["a=--queue easy"],
            "'a=--queue easy': expected a policy, then options of replay, such as \"sjf-bco --kappa 4\"",
        ),
        (["a=sjf", "a=ff"], "'a': expected each name once"),
        (["sjf", "sjf=ff"], "'sjf': expected each name once"),
        (["sjf", "sjf"], "'sjf': expected each run once"),
        (
            ["fifo=sjf"],
            "'fifo': expected each name once; it is one of the policies, so give the run another name:"
            ' --run NAME="..."',
        ),
    ],
)
def test_a_name_that_cannot_be_is_one_line(
    invoke: Invoke, small_jobs: Path, texts: list[str], said: str
) -> None:
    runs = [word for text in texts for word in ("--run", text)]
    done = invoke("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", *runs, "-o", "cmp")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: option run: {said}\n")
    assert not Path("cmp").exists()


def test_a_path_with_an_equals_sign_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    policy = (
        "import ringbco\n\nclass Late(ringbco.KeyPolicy):\n"
        "    def key(self, state, rows):\n        return -rows\n"
    )
    (tmp_path / "d=1").mkdir()
    (tmp_path / "d=1/late.py").write_text(policy)
    assert named_runs(["d=1/late.py:Late"]) == {"d=1/late.py:Late": {"policy": "d=1/late.py:Late"}}
    quoted = "'d=1/late.py:Late' --queue easy"
    assert named_runs([quoted]) == {quoted: {"policy": "d=1/late.py:Late", "queue": "easy"}}
    assert named_runs(["late=d=1/late.py:Late"]) == {"late": {"policy": "d=1/late.py:Late"}}
    (tmp_path / "late.py").write_text(policy)
    assert named_runs(["a=late.py:Late"]) == {"a": {"policy": "late.py:Late"}}
    # Both are there: a is a name, or part of one.
    (tmp_path / "a=late.py").write_text(policy)
    with pytest.raises(UsageError) as caught:
        named_runs(["a=late.py:Late"])
    assert str(caught.value) == (
        "option run: 'a=late.py:Late': expected a name that leaves no doubt: a=late.py:Late and late.py:Late"
        " are files of policies both; write NAME=a=late.py:Late or another name than 'a'"
    )
    assert named_runs(["b=a=late.py:Late"]) == {"b": {"policy": "a=late.py:Late"}}
    log = "log:a=1/decisions.parquet"
    assert named_runs([log, f"b={log}"]) == {log: {"policy": log}, "b": {"policy": log}}


def test_the_command_calls_runs_by_their_names(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    runs = {"fair": "fifo --order smallest --queue easy", "a/b": "srtf", "sjf --queue skip": None}
    words = [f"{name}={text}" if text else name for name, text in runs.items()]
    done = invoke(
        "compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "-o", "cmp", "--baseline", "a/b",
        *(word for text in words for word in ("--run", text)), "--table", "md", "--seeds", "6",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    labels = ["fifo", *runs]
    told = json.loads((tmp_path / "cmp/comparison.json").read_text())
    assert told["policies"] == list(told["folders"]) == list(told["summaries_by_run"]) == labels
    assert told["baseline"] == "a/b"
    folders = ["fifo", "fair", "a-b", "sjf-queue-skip"]
    assert list(told["folders"].values()) == folders
    frame = pl.read_parquet(tmp_path / "cmp/comparison.parquet")
    assert frame["policy"].unique(maintain_order=True).to_list() == labels
    assert frame.filter(policy="a/b")["ratio"].drop_nulls().unique().to_list() == [1.0]
    printed, table = " ".join(done.stdout.split()), (tmp_path / "cmp-table.md").read_text()
    page = (tmp_path / "cmp/report.html").read_text()
    assert "mean completion time against a/b: " in printed
    for text in (printed, table, page):
        assert all(label in text for label in labels)
    # A result repeats from its own folder, and the report of the comparison calls each by its name.
    alone = replay(small_jobs, "2x8", policy="fifo", order="smallest", queue="easy")
    assert Outcome.read(tmp_path / "cmp/fair").jobs.equals(alone.jobs)
    for folder in folders:
        assert invoke("replay", "--again", f"cmp/{folder}").returncode == 0
        assert invoke("audit", f"cmp/{folder}").returncode == 0
    report(tmp_path / "cmp", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page
    again = read_results([tmp_path / "cmp"])
    assert (list(again.outcomes), again.baseline_label) == (labels, "a/b")
    assert again.sentences()
    assert all(" a/b" in line for line in again.sentences())
    assert "--order" not in printed + table


def test_a_baseline_that_is_no_name_is_refused(invoke: Invoke, small_jobs: Path) -> None:
    given = ("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "--run", "fair=sjf", "-o", "cmp")
    done = invoke(*given, "--baseline", "fare")
    said = "error: option baseline: 'fare': expected one of fifo, fair; did you mean fair?\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_in_python_names_are_the_keys_of_a_dictionary(small_jobs: Path) -> None:
    found = compare(small_jobs, "2x8", runs={"fair": FAIR, "plain": "fifo"}, seeds=1, baseline="plain")
    assert list(found.outcomes) == ["fair", "plain"]
    assert found.baseline_label == "plain"
    assert found["plain"].jobs.equals(replay(small_jobs, "2x8", policy="fifo").jobs)
    for runs, said in (
        ({"": FAIR}, "option run: '': expected a name, such as "),
        ({" ": "fifo"}, "option run: ' ': expected a name, such as "),
        ({1: "fifo", "1": "sjf"}, "option run: '1': expected each name once"),
        ({"a": "fifo --queue easy"}, "'fifo --queue easy'"),
        ({"a": 4}, "option runs: "),
    ):
        with pytest.raises(UsageError) as caught:
            compare(small_jobs, "2x8", runs=runs)  # type: ignore[arg-type]
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_result_may_not_take_a_runs_name(
    small_jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    replay(small_jobs, "2x8", policy="sjf").write("old")
    with pytest.raises(UsageError, match="option result: old: expected another name than that of a policy"):
        compare(small_jobs, "2x8", ["fifo"], runs={"old": "srtf"}, results=["old"])


def test_folders_of_names_that_are_no_file_names(small_jobs: Path, tmp_path: Path) -> None:
    one = replay(small_jobs, "2x8")
    names = ["é" * 400, "é" * 401, "../up", "..", "A", "a", "comparison.json", "x\ny"]
    Comparison(dict.fromkeys(names, one)).write(tmp_path / "cmp")
    folders = json.loads((tmp_path / "cmp/comparison.json").read_text())["folders"]
    assert list(folders) == names
    assert len({name.lower() for name in folders.values()}) == len(names)
    assert max(len(name.encode()) for name in folders.values()) < 110
    assert [path.name for path in tmp_path.iterdir() if path.name != "small.csv"] == ["cmp"]
    for name in folders.values():
        assert Outcome.read(tmp_path / "cmp" / name).jobs.equals(one.jobs)
    assert len(read_results([tmp_path / "cmp"]).outcomes) == len(names)


def test_reports_of_two_comparisons_tell_their_runs_apart(small_jobs: Path, tmp_path: Path) -> None:
    one = replay(small_jobs, "2x8")
    for name in ("x", "y"):
        Comparison({"a/b": one, "plain": one}).write(tmp_path / name)
    both = read_results([tmp_path / "x", tmp_path / "y"])
    assert list(both.outcomes) == ["x/a/b", "x/plain", "y/a/b", "y/plain"]
    # A result alone has no name but its folder's.
    assert list(read_results([tmp_path / "x/a-b", tmp_path / "y/plain"]).outcomes) == ["a-b", "plain"]


def test_notes_call_runs_by_their_names(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,num_gpus,duration,min_gpus,max_gpus\na,0,2,50,1,4\n"
    )
    runs = ("--run", "one=fifo", "--run", "two=fifo --queue easy", "--run", "three=afs")
    done = invoke(
        "compare", "jobs.csv", "--cluster", "1x8", "--kappa", "4", *runs, "--seeds", "1", "-o", "cmp"
    )
    assert done.stderr.splitlines() == [
        "note: option kappa: not used by one or two or three",
        "note: 1 elastic job of jobs.csv: num_gpus GPUs each under one and two, which resize no job",
    ]
