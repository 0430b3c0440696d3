"""Names of servers: in cluster files, in tables that name servers, and in all that tells of servers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from frames import cluster_of, outages, table
from ringbco.audits import check_outcome
from ringbco.cluster.hostlist import compact, expand, fault, with_labels
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.reports.perfetto import trace_events
from ringbco.reports.player import player
from ringbco.reports.viewport import viewport
from ringbco.trace.jobs import from_frame

ROOT = Path(__file__).parents[2]
NAMED = """
[[servers]]
name = "g[01-02]"
gpus = 2

[[servers]]
gpus = 2

[[servers]]
name = "x7"
gpus = 2
"""
LABELS = ("g01", "g02", "2", "x7")
JOBS = table(submit_time=[0.0, 1.0, 2.0, 3.0], num_gpus=[2, 4, 2, 2], duration=[50.0, 40.0, 30.0, 20.0])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n01", ["n01"]),
        ("n[01-03,07]", ["n01", "n02", "n03", "n07"]),
        ("a,b[1-2]", ["a", "b1", "b2"]),
        ("r[1-2]n[08-10]-x", [f"r{r}n{n}-x" for r in (1, 2) for n in ("08", "09", "10")]),
        ("a[1-2]b[1-2]", ["a1b1", "a1b2", "a2b1", "a2b2"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[a,2]", ["na", "n2"]),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert expand(compact(names)) == names


@pytest.mark.parametrize(
    "text",
    ["n[01-04", "n01]", "n[[1-2]]", "n[4-1]", "n[a-c]", "n[1-9999999]", "n[\u00b2-3]", "a[1-2000]b[1-2000]"],
)
def test_what_is_no_hostlist(text: str) -> None:
    with pytest.raises(ValueError, match="expected a name or a hostlist such as"):
        expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n08", "n09", "n10", "n1"], "n[08-10,1]"),
        (["n9", "n10"], "n[9-10]"),
        (["n2", "n1"], "n[2,1]"),
        (["a", "n1", "m1", "m2-x", "m3-x"], "a,n1,m1,m[2-3]-x"),
        (["7", "8"], "[7-8]"),
    ],
)
def test_compact(names: list[str], text: str) -> None:
    assert compact(names) == text
    assert expand(text) == names


PARTS = st.from_regex(r"[a-c.-]{0,2}(0|1|9|09|10|099|100|1{19})?([a-c-](8|9|10)?)?", fullmatch=True)


@given(st.lists(PARTS, unique=True, min_size=1).filter(all))
def test_names_come_back_from_their_hostlist(names: list[str]) -> None:
    assert fault(names, set()) is None
    assert expand(compact(names)) == names
    cluster = Cluster([2] * len(names), server_names=names)
    assert Cluster.from_document(cluster.to_dict(), "c.toml").server_names == tuple(names)


def test_a_cluster_file() -> None:
    cluster = cluster_of(NAMED)
    assert cluster.server_names == ("g01", "g02", None, "x7")
    assert cluster.server_labels == LABELS
    assert cluster.server_numbers == {"g01": 0, "g02": 1, "x7": 3}
    again = cluster_of(cluster.to_toml())
    assert again == cluster == pickle.loads(pickle.dumps(cluster))
    assert again.server_names == cluster.server_names
    assert cluster != Cluster("4x2")
    assert Cluster("4x2").server_labels == ("0", "1", "2", "3")
    assert "name" not in Cluster("4x2").to_toml()
    # A recorded cluster runs nothing: its names would tell nothing.
    assert Cluster("1x8").with_recorded(cluster).recorded_on.server_names is None
    assert cluster_of('[[servers]]\nname = "a[1-2]b[1-2]"\ncount = 4\ngpus = 1').server_labels[2] == "a2b1"


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ('name = "g[01-04"', "g[01-04: expected a name or a hostlist such as gpu[01-04,07]"),
        ('name = "g[01-04]"\ncount = 3', "g[01-04]: expected 3 names, since count is 3; it stands for 4"),
        ('name = "g1"\ncount = 2', "g1: expected 2 names, since count is 2; it stands for 1"),
        ('name = ""', ": expected a non-empty text"),
        ('name = "a,"', "a,: expected names that are not empty"),
        ("name = 7", ": 7: expected a non-empty text"),
        ('name = "a b"', "'a b': expected names that are not empty, without blanks, commas and brackets"),
        ('name = "h[1-2],h1"', "h1 is there twice"),
        ('name = "x[6-7]"', "x7 is there twice"),
    ],
)
def test_bad_names_name_their_key(group: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster_of(f'[[servers]]\nname = "x7"\ngpus = 2\n\n[[servers]]\ngpus = 2\n{group}\n')
    text = str(caught.value)
    assert "cluster.toml: servers[2].name: " in text
    assert said in text
    assert "\n" not in text


def test_names_given_in_python() -> None:
    with pytest.raises(InputError, match="2 servers, but 1 labels"):
        Cluster([1, 1], server_names=["a"])
    with pytest.raises(InputError, match=r"server_names: .*a is there twice"):
        Cluster([1, 1, 1], server_names=["a", None, "a"])
    with pytest.raises(InputError, match=r"recorded.servers\[1\]\.name: expected only the keys"):
        cluster_of('[[servers]]\ngpus = 2\n[[recorded.servers]]\nname = "a"\ngpus = 2')


def run(cluster: Cluster | str, jobs: pl.DataFrame = JOBS, **options: Any) -> ringbco.Outcome:
    return ringbco.replay(jobs, cluster, **{"policy": "fifo", "model": "fixed", **options})


def same(one: ringbco.Outcome, other: ringbco.Outcome) -> None:
    assert one.jobs.equals(other.jobs)
    assert one.stays.equals(other.stays)
    assert one.outages is not None
    assert other.outages is not None
    assert one.outages.equals(other.outages)


def test_outages_by_name(tmp_path: Path) -> None:
    by_index = outages((0, 10.0, 20.0), (1, 10.0, 20.0), (3, 5.0, None), (2, 7.0, 8.0))
    file = tmp_path / "outages.csv"
    file.write_text('server,down_at,up_at\n"g[01-02]",10,20\nx7,5,\n2,7,8\n')
    wanted = run("4x2", outages=by_index)
    same(run(cluster_of(NAMED), outages=file), wanted)
    same(run(cluster_of(NAMED), outages=by_index), wanted)
    texts = {"server": ["g02,g01", "x7", " 2"], "down_at": [10.0, 5.0, 7.0], "up_at": [20.0, None, 8.0]}
    made = run(cluster_of(NAMED), outages=pl.DataFrame(texts))
    assert made.jobs.equals(wanted.jobs)
    texts["server"][0] = "0-1"
    same(run(cluster_of(NAMED), outages=pl.DataFrame(texts)), wanted)
    same(run(cluster_of(NAMED), maintenance=file), run("4x2", maintenance=by_index))


def test_a_name_that_looks_like_an_index_is_a_name(tmp_path: Path) -> None:
    cluster = cluster_of('[[servers]]\nname = "[1-2],0"\ngpus = 2')
    file = tmp_path / "outages.csv"
    file.write_text("server,down_at,up_at\n1,10,20\n")
    made = run(cluster, JOBS.head(1), outages=file).outages
    assert made is not None
    assert made["server"].to_list() == [0]
    # Whole numbers of a frame or of Parquet are indexes, those of a result's copy too.
    pl.read_csv(file).write_parquet(tmp_path / "outages.parquet")
    made = run(cluster, JOBS.head(1), outages=tmp_path / "outages.parquet").outages
    assert made is not None
    assert made["server"].to_list() == [1]
    recorded = JOBS.head(1).with_columns(recorded_start=0.0, recorded_servers=pl.lit("0:2"))
    assert placed(run(cluster, recorded, policy="recorded")) == [2]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "g03",
            "g03: expected the index of a server, an integer >= 0, or names of servers; did you mean g01?",
        ),
        ("g[02-03]", "g[02-03]: expected the index of a server"),
        ("4", "4: expected the index of a server"),
        ("g[01", "g[01: expected the index of a server"),
        ("elsewhere", "or names of servers; the cluster's last server is 3"),
        ("", "expected the index of a server"),
    ],
)
def test_no_server_has_the_name(tmp_path: Path, cell: str, said: str) -> None:
    file = tmp_path / "outages.csv"
    file.write_text(f'server,down_at,up_at\ng01,10,20\n"{cell}",10,20\n')
    with pytest.raises(InputError) as caught:
        run(cluster_of(NAMED), outages=file)
    assert (caught.value.row, caught.value.line, caught.value.column) == (2, 3, "server")
    assert said in str(caught.value)


def placed(outcome: ringbco.Outcome) -> list[int]:
    assert outcome.allocations is not None
    return outcome.allocations.sort("job_id", "server")["server"].to_list()


def test_recorded_places_by_name() -> None:
    jobs = JOBS.with_columns(
        recorded_start=pl.Series([0.0, 1.0, 60.0, 70.0]),
        recorded_servers=pl.Series(["g02:2", "2:2 x7:2", None, "0:1 g02:1"]),
    )
    by_index = jobs.with_columns(recorded_servers=pl.Series(["1:2", "2:2 3:2", None, "0:1 1:1"]))
    made = run(cluster_of(NAMED), jobs, policy="recorded")
    wanted = run("4x2", by_index, policy="recorded")
    assert made.jobs.equals(wanted.jobs)
    assert placed(made) == placed(wanted)
    assert check_outcome(made, from_frame(jobs)).findings == []


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("g03:2", "such as 0:4 3:4; did you mean g01?"),
        ("g01:1 0:1", "expected each server once"),
        ("g01", "such as 0:4 3:4; did you mean g01?"),
        ("g01:0", "such as 0:4 3:4"),
        ("4:2", "expected servers from 0 to 3"),
        ("g01:1", "expected num_gpus GPUs in all, which is 2"),
    ],
)
def test_bad_places(places: str, said: str) -> None:
    jobs = JOBS.head(1).with_columns(recorded_start=0.0, recorded_servers=pl.lit(places))
    with pytest.raises(InputError) as caught:
        run(cluster_of(NAMED), jobs, policy="recorded")
    assert (caught.value.row, caught.value.column) == (1, "recorded_servers")
    assert said in str(caught.value)


def test_why_the_player_and_the_timeline_name_servers(tmp_path: Path) -> None:
    down = outages((0, 10.0, 20.0), (3, 5.0, None))
    made = run(cluster_of(NAMED), outages=down)
    made.write(tmp_path / "named")
    for outcome in (made, ringbco.Outcome.read(tmp_path / "named")):
        story = "\n".join(outcome.why("j0", jobs=JOBS).sentences)
        assert "of server g01." in story
        assert "Failed with server g01" in story
        story = "\n".join(outcome.why("j1", jobs=JOBS).sentences)
        assert "2 of server g02 and 2 of server 2. Its ring spans these servers" in story
        (scene,) = player({"one": outcome}, None, None, None)[0]["results"]
        assert scene["servers"]["name"] == ["g01", "g02", 2, "x7"]
        events = list(trace_events(outcome, viewport(outcome, None, None, "g01,x7")))
        names = [event["args"].get("name") for event in events if event["name"] == "process_name"]
        assert names == ["cluster", "server g01 (2 GPUs)", "server x7 (2 GPUs)"]
        assert {event["args"].get("ended by server") for event in events} == {None, "g01", "x7"}
    figures = made.why("j1", jobs=JOBS).to_dict()["story"]
    assert [part["server"] for fact in figures for part in fact.get("on", [])][:2] == [1, 2]


def test_an_audit_names_servers() -> None:
    made = run(cluster_of(NAMED), outages=outages((3, 5.0, None)))
    assert made.allocations is not None
    server = pl.when(pl.col("server") == 2).then(3).otherwise("server").cast(pl.UInt32).alias("server")
    made.allocations = made.allocations.with_columns(server)
    found = check_outcome(made, from_frame(JOBS))
    told = [str(finding) for finding in found.findings if finding.code == "outages"]
    assert told[0].startswith(
        "outages: job j1, server x7, at 1 s: holds GPUs of server x7, which is down from 5"
    )
    assert next(each for each in found.to_dict()["findings"] if each["code"] == "outages")["server"] == 3


def test_refusals_of_the_engine_name_servers() -> None:
    class OnX7(ringbco.Policy):
        def decide(self, state: Any) -> None:
            for row in state.waiting:
                state.start(row, [(3, 2)])

    with pytest.raises(
        ringbco.errors.DecisionError, match=r"job j2 .*server x7 has 0 idle GPUs for the 2 that"
    ):
        run(cluster_of(NAMED), JOBS[[0, 2]], policy=OnX7)


def test_texts_with_indexes() -> None:
    assert with_labels("server 1, server 9 and job server", LABELS) == "server g02, server 9 and job server"


def test_drawn_outages_stay_readable(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text('[[servers]]\nname = "[1-2],0"\ngpus = 2')
    drawn = ("outages", "--cluster", "c.toml", "--mtbf", "1d", "--mttr", "1h", "--days", "9", "-o")
    said = invoke(*drawn, "o.csv")
    assert said.returncode == 2
    assert (
        "--out o.csv: expected a .parquet file: server 1 has a name that looks like an index" in said.stderr
    )
    assert invoke(*drawn, "o.parquet").returncode == 0


def test_the_page_shows_what_is_said(tmp_path: Path, invoke: Invoke) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    block = page.partition("## Names of servers")[2].split("```")[1]
    *files, (command, said) = (part.split("\n", 1) for part in block.strip().split("$ ")[1:])
    for name, text in files:
        (tmp_path / name.removeprefix("cat ")).write_text(text)
    JOBS.write_csv(tmp_path / "jobs.csv")
    assert invoke(*command.split()[1:]).stderr.strip() == said.strip()


def test_the_command_line(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "c.toml").write_text(NAMED)
    JOBS.write_csv(tmp_path / "jobs.csv")
    (tmp_path / "down.csv").write_text("server,down_at,up_at\ng01,10,20\n")
    common = ("--cluster", tmp_path / "c.toml", "--policy", "fifo", "--model", "fixed", "-o", tmp_path / "r")
    assert (
        invoke("replay", tmp_path / "jobs.csv", *common, "--outages", tmp_path / "down.csv").returncode == 0
    )
    why = invoke("why", tmp_path / "r", "j0")
    assert "Failed with server g01" in why.stdout.replace("\n", " ")
    audit = invoke("audit", tmp_path / "r", "--json")
    assert json.loads(audit.stdout)["ok"]
    made = invoke("play", tmp_path / "r", "-o", tmp_path / "p.html", "--servers", "g[01-03]")
    assert made.returncode != 0
    assert (
        "option servers: g03: expected a name or an index of the cluster's servers; did you mean"
        in made.stderr
    )
