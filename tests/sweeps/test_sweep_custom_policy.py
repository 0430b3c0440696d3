"""A sweep's specification that names custom policies: loaded last, not called before the runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import Invoke
from ringbco.errors import InputError
from ringbco.sweeps.spec import read_spec

MINE = """\
import pathlib
from dataclasses import dataclass
import ringbco

HERE = pathlib.Path(__file__).parent
(HERE / "loaded").touch()

class Called:
    def __new__(cls, *given, **named):
        (HERE / "called").touch()
        return super().__new__(cls)

@dataclass
class Keys(Called, ringbco.KeyPolicy):
    sign: int = 1
    def key(self, state, rows):
        (HERE / "called").touch()
        return rows

class Ranks(Called, ringbco.RankPolicy):
    def rank(self, state, rows):
        return rows

class All(Called, ringbco.Policy):
    def decide(self, state):
        state.start(state.waiting)

@dataclass
class Needs(ringbco.KeyPolicy):
    times: float
    def key(self, state, rows):
        return rows

class Half(ringbco.KeyPolicy):
    pass
"""
HEAD = '[base]\ntrace = "small.csv"\ncluster = "2x8"\n'


@pytest.fixture
def mine(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text(f"{MINE}# {tmp_path}\n")
    return spec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[grid]\npolicy = ['mine.py:Keys', 'sfj']",
            "spec.toml: grid.policy[2]: sfj: expected a name that is known; did you mean sjf?",
        ),
        (
            "policy = 'mine.py:Keys'\n[grid]\nkappa = [-1]",
            "spec.toml: grid.kappa[1]: -1: expected an integer",
        ),
        ("policy = 'mine.py:Keys'\noutages = '0'", 'spec.toml: base.outages: "0": expected the path of a'),
        ("policy = 'mine.py:Keys'\nquota = 'small.csv'", "small.csv: has no column"),
        ("policy = 'mine.py:Keys'\n[[runs]]\ntrace = 'no.csv'", "spec.toml: runs[1].trace: no.csv: expected"),
        ("[[runs]]\npolicy = 'mine:Keys'\n[[runs]]\nkappas = 1", "spec.toml: runs[2].kappas: expected only"),
        ("[grid]\npolicy = ['mine:Keys', 'fifo']\nplacement = ['x']", "spec.toml: grid.placement[1]: x: "),
    ],
)
def test_nothing_is_loaded_before_all_else_is_right(
    invoke: Invoke, mine: Path, tmp_path: Path, text: str, said: str
) -> None:
    mine.write_text(f"{HEAD}{text}\n")
    done = invoke("sweep", mine.name, "-o", "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize("name", ["Keys", "Ranks", "All"])
@pytest.mark.parametrize("place", ["mine.py", "custom_module"])
def test_loaded_and_not_called(mine: Path, tmp_path: Path, name: str, place: str) -> None:
    (tmp_path / "custom_module.py").write_bytes((tmp_path / "mine.py").read_bytes())
    sys.modules.pop("custom_module", None)
    queue = "skip" if name == "Keys" else "strict"
    mine.write_text(f"{HEAD}queue = '{queue}'\n[grid]\npolicy = ['fifo', '{place}:{name}']\nkappa = [8, 2]\n")
    spec = read_spec(mine)
    assert [run.settings["policy"] for run in spec.runs] == ["fifo", "fifo", *[f"{place}:{name}"] * 2]
    assert spec.runs[2].settings["order"] == ("column" if name == "Keys" else "fifo")
    assert len({run.key for run in spec.runs}) == 2
    assert spec.runs[2].custom is not None
    assert spec.runs[2].custom.sha256 is not None
    assert (tmp_path / "loaded").exists()
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy = 'mine.py:Nobody'", r"base\.policy: mine\.py:Nobody: expected a class of .*: Keys, Ranks"),
        ("policy = 'mine.py:Half'", r"base\.policy: mine\.py:Half: expected a class with the method key"),
        ("policy = 'mine.py:HERE'", r"base\.policy: mine\.py:HERE: expected a class derived from"),
        ("policy = 'mine.py:Needs'", r"base\.policy: mine\.py:Needs: expected a value of times"),
        ("policy = 'nowhere:X'", r"base\.policy: nowhere:X: expected a policy's name, module:Class or"),
        ("policy = 'mine.py:Ranks'\nqueue = 'skip'", r"base\.queue: skip: .* decides itself who starts"),
        ("policy = 'mine.py:Keys'\norder = 'sjf'", r"base\.order: sjf: .* orders the jobs itself"),
    ],
)
def test_what_is_wrong_with_a_policy_is_named(mine: Path, text: str, said: str) -> None:
    mine.write_text(f"{HEAD}{text}\n")
    with pytest.raises(InputError, match=said):
        read_spec(mine)


def test_a_policy_that_some_of_the_runs_can_take(invoke: Invoke, mine: Path, tmp_path: Path) -> None:
    mine.write_text(f"{HEAD}queue = 'skip'\n[grid]\npolicy = ['mine.py:Keys', 'mine.py:All', 'fifo']\n")
    done = invoke("sweep", mine.name, "-o", "out", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"failed": 0' in done.stdout
    assert (tmp_path / "called").exists()
