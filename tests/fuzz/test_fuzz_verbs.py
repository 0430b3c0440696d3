"""Whole verbs, as a shell runs them, on damaged inputs and on results of every verb: none says "unexpected".

What a replay or a plan accepts, every other verb accepts: an audit finds nothing, and all is told and drawn.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import SMALL_JOBS
from fuzz import fuzzed
from fuzz.damage import TEXTS, damaged_bytes, damaged_document, damaged_text
from fuzz.test_fuzz_results import damage
from fuzz.test_fuzz_sources import sound as raw_files
from fuzz.verbs import (
    NAMES,
    NUMBERS,
    UNBOUNDED,
    UserInputs,
    check_figures,
    entries,
    file_of,
    names_of,
    odd,
    odd_option,
    put,
    ran,
    side_table_words,
    user_inputs,
)
from ringbco.io.toml import toml_text
from ringbco.result.tables import RESULT_FILES
from ringbco.run.registry import BUILT_IN, PRESETS
from ringbco.sources import SOURCES

SEEDS: Final = range(400)
"""Of random cases: whoever fails names the one that it was."""
LOGGED: Final = "decisions.parquet"

pytestmark = pytest.mark.usefixtures("unvalidated")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verbs")


@cache
def known(seed: int) -> UserInputs | None:
    return user_inputs(seed)


@st.composite
def someone(draw: Callable[[Any], Any]) -> UserInputs:
    """What a user has: a random case that its own command takes."""
    result = None
    while result is None:
        result = known(draw(st.sampled_from(SEEDS)))
    return result


def replayed(folder: Path, given: UserInputs, words: list[str], out: str = "r") -> bool:
    result = ran(
        folder,
        *("replay", file_of(folder, "jobs"), "--cluster=cluster.toml", f"--policy={given.policy}"),
        *(*side_table_words(folder), *words, "-o", out),
    )
    return result.status == 0


def told_of(draw: Callable[[Any], Any], folder: Path, given: UserInputs, result: str = "r") -> list[str]:
    """A verb on a result there."""
    jobs = given.tables["jobs"]["job_id"].drop_nulls().to_list()
    name = draw(st.sampled_from((*jobs, *NAMES[:3])))
    own = [f"--policy={given.policy}"] if given.policy not in (*PRESETS, *BUILT_IN) else []
    verbs: dict[str, list[str]] = {
        "audit": ["audit", result],
        "why": ["why", result, draw(st.sampled_from(("--all", "--json", "-h"))), "--", str(name)],
        "diff": [
            "diff",
            result,
            result,
            draw(st.sampled_from(("--json", "-q", "--csv=d.csv", "--out=d.html"))),
        ],
        "play": ["play", result, "-o", "p.html"],
        "timeline": ["timeline", result, "-o", "t.json.gz"],
        "again": ["replay", "--again", result, *own],
        "compare": ["compare", f"--result={result}", f"--result={copied(folder / result).name}", "-o", "c"],
        "report": ["report", result, "-o", "r.html"],
    }
    # Drawing takes most of the time.
    often = [verb for verb in verbs if verb not in ("report", "compare")] * 4
    return verbs[draw(st.sampled_from((*often, "report", "compare")))]


def copied(result: Path) -> Path:
    """The result under another name."""
    other = result.with_name("copy")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(result, other)
    return other


@fuzzed
@given(data=st.data())
def test_runs(room: Path, data: st.DataObject) -> None:
    """A replay of odd inputs with odd options; then a verb on its result."""
    mine = data.draw(someone())
    files, words = data.draw(odd(mine))
    here = put(room / "runs", files)
    before = entries(here)
    if not replayed(here, mine, words):
        assert entries(here) == before, "something was left"
        return
    check_figures(here / "r")
    arguments = told_of(data.draw, here, mine)
    result = ran(here, *arguments)
    assert result.status == 0 or (arguments[0] == "why" and result.status == 1), (words, result)


@fuzzed
@given(data=st.data())
def test_plans(room: Path, data: st.DataObject) -> None:
    """A plan of odd jobs; then a verb on it."""
    mine = data.draw(someone())
    files, words = data.draw(odd(mine))
    words = [word for word in words if word.split("=")[0] in PLANNED]
    here = put(room / "plans", files)
    policy = data.draw(st.sampled_from(("sjf-bco", "ff", "ls", "rand", "fifo", "x")))
    odd_words = data.draw(st.lists(st.sampled_from(PLANNED), max_size=2))
    words += [f"{word}={data.draw(st.sampled_from(NUMBERS))}" for word in odd_words]
    arguments = ("plan", file_of(here, "jobs"), "--cluster=cluster.toml", f"--policy={policy}")
    before = entries(here)
    if ran(here, *arguments, "--oversize=drop", *words, "-o", "r").status:
        assert entries(here) == before, "something was left"
        return
    check_figures(here / "r")
    arguments = told_of(data.draw, here, UserInputs(mine.tables, mine.cluster))
    result = ran(here, *arguments)
    assert result.status == 0 or (arguments[0] == "why" and result.status == 1), (words, result)


PLANNED: Final = (
    *("--slot", "--seed", "--kappa", "--lambda", "--u", "--horizon", "--variant", "--dispatch"),
    *("--intra-bandwidth", "--inter-bandwidth", "--reduce-speed", "--xi1", "--xi2", "--alpha"),
)


@fuzzed
@given(data=st.data())
def test_tables(room: Path, data: st.DataObject) -> None:
    """What is done with jobs, and the tables beside them, without a result."""
    mine = data.draw(someone())
    files, words = data.draw(odd(mine))
    here = put(room / "tables", files)
    jobs, number = file_of(here, "jobs"), st.sampled_from(NUMBERS)
    on = ["--cluster=cluster.toml"]
    verbs: dict[str, list[Any]] = {
        "bound": ["bound", jobs, *on, *side_table_words(here), *words],
        "cluster": [
            "cluster",
            "cluster.toml",
            data.draw(st.sampled_from(("--json", "--vc=pool", "--xi1=1"))),
        ],
        "inspect": ["inspect", jobs, data.draw(st.sampled_from(("--json", "-q", *on)))],
        "page": ["inspect", jobs, *on, "--html=i.html"],
        "profile": ["profile", jobs, "-o", "p.parquet", *data.draw(st.sampled_from(((), on, ("--json",))))],
        "pack": [
            "pack",
            jobs,
            *on,
            f"--until={data.draw(number)}",
            f"--runs={data.draw(st.sampled_from((1, 2, 'x')))}",
        ],
        "csv": [
            "convert",
            "csv",
            jobs,
            "-o",
            data.draw(st.sampled_from(("x.csv", "x.parquet"))),
            *_map(data.draw),
        ],
        "services": [
            *(
                "services",
                file_of(here, "services"),
                "-o",
                "s.csv",
                f"--gpus-per-replica={data.draw(number)}",
            ),
            *(f"--tokens-per-gpu={data.draw(number)}", f"--window={data.draw(number)}"),
        ],
        "outages": [
            *("outages", *on, "-o", "x.csv", f"--mtbf={data.draw(number)}", f"--mttr={data.draw(number)}"),
            *(f"--days={data.draw(number)}", f"--cause={data.draw(st.sampled_from(NAMES))}"),
        ],
        "generate": [
            *(
                "generate",
                f"--preset={data.draw(st.sampled_from(('philly', 'helios', 'paper')))}",
                "-o",
                "g.csv",
            ),
            *(
                f"--jobs={data.draw(st.sampled_from((0, 1, 20, -1, 'x')))}",
                f"--{data.draw(st.sampled_from(MADE))}={data.draw(number)}",
            ),
        ],
        "compare": [
            *(
                "compare",
                jobs,
                *on,
                "--policy=fifo",
                f"--policy={mine.policy}",
                *side_table_words(here),
                *words,
                "-o",
                "c",
            ),
        ],
    }
    often = [verb for verb in verbs if verb not in ("page", "compare")] * 5
    before = entries(here)
    result = ran(here, *verbs[data.draw(st.sampled_from((*often, "page", "compare")))])
    if result.status:
        assert entries(here) == before, "something was left"


MADE: Final = ("gpus", "load", "seed", "types", "elastic", "elastic-share")


def _map(draw: Callable[[Any], Any]) -> list[str]:
    names = ("job_id", "submit_time", "num_gpus", "duration", "user", "model", "x", *NAMES[:2])
    pairs = draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=4))
    return [f"--map={ours}={theirs}" for ours, theirs in pairs]


@fuzzed
@given(data=st.data())
def test_results(room: Path, data: st.DataObject) -> None:
    """Every verb on a damaged result: told, or refused."""
    here = sound(room, data.draw(st.sampled_from(range(12))))
    files = Files(
        (name, (here / "r" / name).read_bytes())
        for name in sorted(RESULT_FILES)
        if (here / "r" / name).is_file()
    )
    mine = known_at(here)
    broken = here / "b"
    shutil.rmtree(broken, ignore_errors=True)
    broken.mkdir()
    for name, content in data.draw(damage(files)).items():
        if content is None:
            (broken / name).mkdir()
        else:
            (broken / name).write_bytes(content)
    for name in ("p.html", "t.json.gz", "d.csv", "d.html", "r.html"):
        (here / name).unlink(missing_ok=True)
    shutil.rmtree(here / "c", ignore_errors=True)
    ran(here, *told_of(data.draw, here, mine, "b"))


class Files(dict[str, bytes]):
    """Files by name, whose bytes nobody has to read when a strategy is shown."""

    def __repr__(self) -> str:
        return f"<{len(self)} files>"


_known: dict[Path, UserInputs] = {}


def known_at(here: Path) -> UserInputs:
    return _known[here]


def sound(room: Path, number: int) -> Path:
    """A folder with a sound result r: of a plan, of a log, of policies and features of random cases."""
    here = room / f"sound{number}"
    if here in _known:
        return here
    at = number * 1000
    while True:
        at += 1
        mine = known(at)
        if mine is None:
            continue
        files = {f"{name}.csv": frame.write_csv().encode() for name, frame in mine.tables.items()}
        put(here, {**files, "cluster.toml": mine.cluster.encode()})
        if number == 0:
            if ran(here, "plan", "jobs.csv", "--cluster=cluster.toml", "--oversize=drop", "-o", "r").status:
                continue
        elif not replayed(here, mine, [*mine.words, "--decisions"]):
            continue
        if number in (1, 2):
            shutil.move(here / "r", here / "first")
            log = f"log:first/{LOGGED}"
            assert (
                ran(here, "replay", "jobs.csv", "--cluster=cluster.toml", f"--policy={log}", "-o", "r").status
                == 0
            )
        _known[here] = mine
        return here


@fuzzed
@given(data=st.data())
def test_conversions(room: Path, data: st.DataObject) -> None:
    """A raw trace, damaged, and what is made of it."""
    name = data.draw(st.sampled_from(sorted(set(SOURCES) - {"csv"})))
    files = {file: text.encode() for file, text in raw_files(name).items()}
    for file in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        text = raw_files(name)[file]
        if data.draw(st.booleans()):
            files[file] = data.draw(damaged_bytes(files[file]))
        elif text.lstrip().startswith(("{", "[")):
            document = data.draw(damaged_document(json.loads(text)))
            files[file] = json.dumps(document).encode("utf-8", "surrogatepass")
        else:
            mark = {"swf": " ", "gavel": " ", "slurm": "|"}.get(name, ",")
            files[file] = data.draw(damaged_text(text, mark))
    here = put(room / "raw", {})
    for file, content in files.items():
        (here / file).parent.mkdir(parents=True, exist_ok=True)
        (here / file).write_bytes(content)
    before = entries(here)
    words = data.draw(
        st.sampled_from(
            (
                (),
                ("--strict",),
                ("--json",),
                ("--cluster-out=c.toml",),
                ("--snapshot=2020-09-01",),
                ("--seed=1", "--elastic=0.5:2"),
            )
        )
    )
    result = ran(here, "convert", name, *sorted(files), "-o", "jobs.parquet", *words)
    if result.status:
        assert entries(here) == before, "something was left"
        return
    assert ran(here, "inspect", "jobs.parquet", "-q").status == 0


@fuzzed
@given(data=st.data())
def test_sweeps(room: Path, data: st.DataObject) -> None:
    """A damaged specification, run."""
    document = data.draw(
        damaged_document(
            {
                "base": {"trace": "jobs.csv", "cluster": "2x8"},
                "grid": {"policy": ["fifo", "srtf"], "kappa": [1, 8], "seed": [0]},
            },
            (*TEXTS, *NAMES, *SOME),
        )
    )
    here = put(room / "sweeps", {"jobs.csv": SMALL_JOBS.encode()})
    text = toml_text(document if isinstance(document, dict) else {"base": document})
    (here / "spec.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    ran(here, "sweep", "spec.toml", "-o", "s", "--threads=1", data.draw(st.sampled_from(("-q", "--json"))))


SOME: Final = (
    0,
    1,
    -1,
    2**31,
    2**63 - 1,
    0.0,
    0.5,
    1e308,
    1e-320,
    float("inf"),
    float("nan"),
    True,
    [],
    {},
    [0],
    ["fifo"],
    [[1]],
)


@fuzzed
@given(data=st.data())
def test_options(room: Path, data: st.DataObject) -> None:
    """Odd options of each verb, of sound inputs."""
    mine = data.draw(someone())
    files = {f"{name}.csv": frame.write_csv().encode() for name, frame in mine.tables.items()}
    here = put(room / "options", {**files, "cluster.toml": mine.cluster.encode()})
    policy = data.draw(st.sampled_from([name for name in PRESETS if name not in UNBOUNDED]))
    words = [word for _ in range(data.draw(st.integers(1, 4))) for word in odd_option(data.draw)]
    before = entries(here)
    result = ran(
        here,
        "replay",
        "jobs.csv",
        "--cluster=cluster.toml",
        f"--policy={policy}",
        "--oversize=drop",
        *words,
        "-o",
        "r",
    )
    if result.status:
        assert entries(here) == before, "something was left"
        return
    check_figures(here / "r")
    result = ran(here, *told_of(data.draw, here, UserInputs(mine.tables, mine.cluster)))
    assert result.status == 0 or (result.arguments[0] == "why" and result.status == 1), (words, result)


def test_names_meet() -> None:
    """A case has names to be odd."""
    assert any(names_of(mine) for mine in map(known, SEEDS[:5]) if mine is not None)
