"""Commands that lack something or say it another way: each error names the command that is meant."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import ringbco
from conftest import Invoke
from ringbco.cluster.presets import PRESETS, presets_like
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.run.outage_draws import Draw
from test_remedies import HEADER, PLAIN, REPLAY, refused

# Commands that lack something


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("replay j.csv -o out", "--cluster is missing: `ringbco replay j.csv -o out --cluster 32x8`"),
        ("replay j.csv --cluster 2x8", "-o is missing: `ringbco replay j.csv --cluster 2x8 -o results`"),
        ("replay --cluster 2x8 -o o", "JOBS is missing: `ringbco replay --cluster 2x8 -o o jobs.parquet`"),
        ("replay j.csv", "--cluster and -o are missing: `ringbco replay j.csv --cluster 32x8 -o results`"),
        (
            "replay",
            "JOBS, --cluster and -o are missing: `ringbco replay jobs.parquet --cluster 32x8 --policy"
            " sjf-bco -o"
            " results`",
        ),
        (
            "compare j.csv --policy fifo --policy sjf -o c",
            "--cluster is missing: `ringbco compare j.csv --policy fifo --policy sjf -o c --cluster 64x8`",
        ),
        (
            "compare --cluster 2x8 --policy fifo --policy sjf -o c",
            "JOBS is missing: `ringbco compare --cluster 2x8 --policy fifo --policy sjf -o c jobs.parquet`",
        ),
        ("compare j.csv --cluster 2x8", "-o is missing: `ringbco compare j.csv --cluster 2x8 -o cmp`"),
        ("plan j.csv -o p", "--cluster is missing: `ringbco plan j.csv -o p --cluster 20x16`"),
        ("bound j.csv", "--cluster is missing: `ringbco bound j.csv --cluster 32x8`"),
        ("profile j.csv", "-o is missing: `ringbco profile j.csv -o pinned.parquet`"),
        ("why r", "JOB is missing: `ringbco why r j17`"),
        (
            "outages --cluster 2x8 --mtbf 20d",
            "--mttr, --days and -o are missing: `ringbco outages --cluster 2x8 --mtbf 20d --mttr 2h"
            " --days 90 -o"
            " outages.parquet`",
        ),
        (
            "generate --jobs 10 -o 'my jobs.csv'",
            "--preset (philly, helios, llm, paper, requests) is missing: `ringbco generate --jobs 10"
            " -o 'my jobs.csv' --preset philly`",
        ),
        (
            "generate",
            "--preset (philly, helios, llm, paper, requests) and -o are missing: `ringbco generate --preset"
            " philly --jobs"
            " 100000 --seed 1 -o jobs.parquet`",
        ),
        (
            "convert",
            "SOURCE (slurm, philly, helios, acme, pai, openb, spot-gpu, elasticflow, gavel, pollux, swf, csv)"
            " is missing:"
            " `ringbco convert helios 'data/Venus/*.csv' -o venus.parquet --cluster-out venus.toml`",
        ),
    ],
)
def test_what_a_command_lacks_is_named_and_filled_in(given: str, told: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    words = shlex.split(given)
    assert refused(invoke, *words, status=2) == f"{words[0]}: {told}"


def test_the_command_that_is_filled_in_works(invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    line = refused(invoke, "replay", "j.csv", "-o", "my results", status=2)
    (command,) = re.findall("`(.*)`", line)
    assert invoke(*shlex.split(command)[1:]).returncode == 0
    assert Path("my results/run.toml").exists()
    line = refused(invoke, "generate", "--jobs", "20", "-o", "g.csv", status=2)
    (command,) = re.findall("`(.*)`", line)
    assert invoke(*shlex.split(command)[1:]).returncode == 0


# Several names in one


@pytest.mark.parametrize("text", ["fifo,sjf", "fifo, sjf", "fifo sjf", "fifo;sjf", "fifo|sjf"])
def test_several_policies_in_one(text: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    told = (
        f"option policy: '{text}': expected one name; `ringbco compare` takes several, --policy fifo"
        " --policy sjf,"
        ' and a sweep a list, policy = ["fifo", "sjf"] under [grid]'
    )
    given = ("j.csv", "--cluster", "2x8", "-o", "r")
    assert refused(invoke, "replay", *given, "--policy", text, status=2) == told
    assert refused(invoke, "compare", *given, "--policy", text, status=2) == told
    assert refused(invoke, "compare", *given, "--policy", text, "--policy", "edf", status=2) == told
    with pytest.raises(UsageError) as caught:
        ringbco.replay("j.csv", "2x8", policy=text)
    assert str(caught.value) == told
    done = invoke("compare", "j.csv", "--cluster", "2x8", "-o", "c", "--policy", "fifo", "--policy", "sjf")
    assert done.returncode == 0


@pytest.mark.parametrize(("option", "names"), [("order", ("fifo", "sjf")), ("queue", ("strict", "easy"))])
def test_several_parts_in_one(option: str, names: tuple[str, str], invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    one, other = (f'--run "fifo --{option} {name}"' for name in names)
    text = ",".join(names)
    assert refused(invoke, "replay", "j.csv", *REPLAY, f"--{option}", text, status=2) == (
        f"option {option}: '{text}': expected one name; `ringbco compare` takes several, {one} {other}, and a"
        f' sweep a list, {option} = ["{names[0]}", "{names[1]}"] under [grid]'
    )


def test_several_policies_in_one_text_of_a_grid(invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    Path("s.toml").write_text('[base]\ntrace = "j.csv"\ncluster = "2x8"\n[grid]\npolicy = "fifo,sjf"\n')
    assert refused(invoke, "sweep", "s.toml", "-o", "s") == (
        's.toml: grid.policy: fifo,sjf: expected a list of at least one value; policy = ["fifo", "sjf"],'
        " or put"
        " it under [base]"
    )


def test_several_columns_in_one_map(invoke: Invoke) -> None:
    Path("j.csv").write_text("id,submit_time,gpus,duration\na,0,1,5\n")
    entry = "job_id=id,num_gpus=gpus"
    assert refused(invoke, "convert", "csv", "j.csv", "--map", entry, "-o", "j.parquet", status=2) == (
        f"--map {entry}: expected one column, ours=theirs; repeat it: --map job_id=id --map num_gpus=gpus"
    )


# The wrong way round


@pytest.mark.parametrize(
    ("header", "entry", "told"),
    [
        (
            "job,submit_time,num_gpus,duration",
            "job=job_id",
            "the wrong way round, expected OURS=THEIRS: --map job_id=job",
        ),
        (
            "job,submit_time,num_gpus,duration",
            "id=job_id",
            "the wrong way round, expected OURS=THEIRS: --map job_id=job; the columns of j.csv are job,"
            " submit_time, num_gpus, duration",
        ),
        (
            "job,submit_time,num_gpus,long",
            "ran=duration",
            "the wrong way round, expected OURS=THEIRS: --map duration=THEIRS; the columns of j.csv are job,"
            " submit_time, num_gpus, long",
        ),
        # Both are names of ours: submissions go by start_time in this file.
        (
            "job_id,start_time,num_gpus,duration",
            "start_time=submit_time",
            "the wrong way round, expected OURS=THEIRS: --map submit_time=start_time",
        ),
        (
            HEADER,
            "job=job_id",
            "job is no column of the job table, and j.csv has job_id under that name: leave --map"
            " job=job_id out",
        ),
    ],
)
def test_a_map_the_wrong_way_round(header: str, entry: str, told: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(f"{header}\na,0,1,5\n")
    said = refused(invoke, "convert", "csv", "j.csv", "--map", entry, "-o", "j.parquet", status=2)
    assert said == f"--map {entry}: {told}"


def test_types_the_wrong_way_round(invoke: Invoke) -> None:
    given = ("generate", "--preset", "philly", "--jobs", "10", "-o", "g.csv")
    assert refused(invoke, *given, "--types", "0.5:V100", status=2) == (
        "option types: '0.5:V100': the wrong way round, expected TYPE:SHARE: V100:0.5"
    )


# Names of presets


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("venus", "preset:helios-venus"),
        ("Venus", "preset:helios-venus"),
        ("helios_venus", "preset:helios-venus"),
        ("venuss", "preset:helios-venus"),
        ("seren", "preset:acme-seren"),
        ("acme", "preset:acme-seren or preset:acme-kalos"),
        ("philly-6214e", "preset:philly-6214e9"),
        ("6214e9", "preset:philly-6214e9"),
        ("openbb", "preset:openb"),
    ],
)
def test_the_nearest_preset(given: str, meant: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    known = ", ".join(PRESETS)
    assert refused(invoke, "replay", "j.csv", "--cluster", f"preset:{given}", "-o", "r") == (
        f"cluster: preset:{given}: expected a preset that is known; did you mean {meant}? Else one of the"
        " presets"
        f" {known}"
    )
    assert refused(invoke, "replay", "j.csv", "--cluster", given, "-o", "r") == (
        f"cluster: {given}: expected SxG such as 32x8, the path of a TOML file, or preset:NAME; there is"
        " no file of"
        f" that name; did you mean {meant}?"
    )


def test_what_is_like_no_preset() -> None:
    assert presets_like("xyz") == []
    assert all(presets_like(name) == [name] for name in PRESETS)
    with pytest.raises(InputError, match=r"preset:xyz: expected one of the presets philly, .*, openb$"):
        Cluster.parse("preset:xyz")


def test_a_cluster_of_a_source_is_no_source(invoke: Invoke) -> None:
    said = refused(invoke, "convert", "venus", "x.csv", "-o", "j.csv", status=2)
    assert said.startswith("no source venus: choose one of slurm, ")
    assert said.endswith("csv; did you mean helios?")
    said = refused(invoke, "generate", "--preset", "venus", "--jobs", "10", "-o", "j.csv", status=2)
    assert said == "preset 'venus': expected one of philly, helios, llm, paper; did you mean helios?"


# Draws


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (
            "draw:mtbf=20",
            "mttr too, and a unit for mtbf: 20 is in seconds, 20d in days, such as draw:mtbf=20d,mttr=2h",
        ),
        ("draw:mtbf=20d", "mttr too, such as draw:mtbf=20d,mttr=2h"),
        ("draw:mttr=3h", "mtbf too, such as draw:mtbf=42d,mttr=3h"),
        (
            "draw:mttr=2,seed=3",
            "mtbf too, and a unit for mttr: 2 is in seconds, 2h in hours, such as"
            " draw:mtbf=42d,mttr=2h,seed=3",
        ),
        ("draw:seed=3", "mtbf and mttr too, such as draw:mtbf=42d,mttr=2h,seed=3"),
        (
            "draw:mtfb=20d,mttr=2h",
            "draw:mtbf=TIME,mttr=TIME[,seed=N|run][,repair=exponential|lognormal][,sigma=NUMBER]"
            "[,tier=NAME]; did you mean mtbf=20d?",
        ),
        *(
            (
                text,
                "draw:mtbf=TIME,mttr=TIME[,seed=N|run][,repair=exponential|lognormal][,sigma=NUMBER][,tier=NAME],"
                " each at most"
                " once",
            )
            for text in ("draw", "draw:", "draw:mtbf=", "draw:mtbf=1d,mtbf=2d", "draw:often=1d")
        ),
    ],
)
def test_what_a_draw_lacks(draw: str, told: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    said = refused(invoke, "replay", "j.csv", *REPLAY, "--outages", draw, status=2)
    assert said == f"option outages: '{draw}': expected {told}"
    if ", such as " in told:
        Draw.parse(told.rpartition(", such as ")[2])


# Factors of the network


@pytest.mark.parametrize(
    ("given", "meant"), [("2x", "x2"), ("0.5X", "x0.5"), ("*2", "x2"), ("\u00d73", "x3")]
)
@pytest.mark.parametrize("option", ["inter-bandwidth", "intra-bandwidth", "reduce-speed", "xi2"])
def test_a_factor_is_written_x_first(option: str, given: str, meant: str, invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    told = f"option {option}: '{given}': expected {meant}, {meant[1:]} times the cluster's own"
    assert refused(invoke, "replay", "j.csv", *REPLAY, f"--{option}", given, status=2) == told
    text = f"fifo --{option} '{given}'"
    said = refused(
        invoke, "compare", "j.csv", "--cluster", "2x8", "--policy", "sjf", "--run", text, "-o", "c", status=2
    )
    assert said == f"option run: {text!r}: {told}"


def test_a_factor_is_of_the_clusters_own(invoke: Invoke) -> None:
    Path("j.csv").write_text(PLAIN)
    Path("c.toml").write_text(
        "[network]\ninter_bandwidth = 4e9\nxi2 = 1e-3\n[[servers]]\ncount = 2\ngpus = 8\n"
    )
    given = ("j.csv", "--cluster", "c.toml", "--policy", "fifo")
    factors = ("--inter-bandwidth", "x2", "--intra-bandwidth", "x0.5", "--xi2", "x3")
    numbers = ("--inter-bandwidth", "8e9", "--intra-bandwidth", "75e9", "--xi2", "3e-3")
    for name, network in (("factors", factors), ("numbers", numbers)):
        assert invoke("replay", *given, *network, "-o", name).returncode == 0
    assert Path("factors/run.toml").read_text() == Path("numbers/run.toml").read_text()
    assert Cluster.parse("2x8").with_network(reduce_speed="x2").network.reduce_speed == 1e12
    with pytest.raises(
        InputError, match="inter_bandwidth: 0: expected a finite number of bytes per second > 0"
    ):
        Cluster.parse("2x8").with_network(inter_bandwidth="x0")
    with pytest.raises(InputError, match=r"inter_bandwidth: .*x-1.*: expected a finite number"):
        Cluster.parse("2x8").with_network(inter_bandwidth="x-1")
    # Other lengths of time are no factors of anything.
    assert invoke("replay", *given, "--preempt-cost", "x2", "-o", "r").returncode == 2
