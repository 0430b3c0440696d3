"""What is made of the table of options: current, complete, and what the engine has by itself."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringbco import _core, plan, replay
from ringbco.cli import load
from ringbco.dev import generate
from ringbco.errors import UsageError
from ringbco.run.option import Option
from ringbco.run.options import check, checked
from ringbco.run.registry import PLAN, PRESETS, REPLAY

ROOT = Path(__file__).parents[2]
TABLES = [("replay", REPLAY), ("plan", PLAN)]
OPTIONS = [
    pytest.param(option, id=f"{command}-{name}")
    for command, table in TABLES
    for name, option in table.items()
]
JOBS = {
    "submit": np.array([0.0]),
    "num_gpus": np.array([1], dtype=np.uint32),
    "duration": np.array([10.0]),
    "iterations": np.array([10], dtype=np.uint64),
    "gradient_bytes": np.array([1e8]),
    "compute_time": np.array([1.0]),
}
CLUSTER = {"server_gpus": np.array([4], dtype=np.uint32), "network": (150e9, 12.5e9, 500e9, 0.5, 5e-4, 0.3)}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of every file that is made, as the working folder."""
    for path, _ in generate.files():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_everything_is_current() -> None:
    assert generate.main(["--check"]) == 0


def test_what_is_not_current_is_named_and_mended(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = project / generate.OPTION_TYPES
    stale.write_text(stale.read_text().replace("aging: float", "aging: str"))
    page = project / "docs/policies.md"
    page.write_text(page.read_text().replace("| `--quantum` | policy", "| `--quantum` | nobody"))
    assert generate.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert f"{generate.OPTION_TYPES} is not current" in said
    assert "docs/policies.md is not current" in said
    assert "aging: str" in stale.read_text()
    assert generate.main([]) == 0
    assert capsys.readouterr().out.split() == [str(generate.OPTION_TYPES), "docs/policies.md"]
    assert generate.main(["--check"]) == 0
    assert generate.main(["--chekc"]) == 2


def typed_keys(name: str) -> set[str]:
    """The keys of a TypedDict of the stub, which no module has."""
    tree = ast.parse((ROOT / generate.OPTION_TYPES).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {ast.unparse(node.target) for node in typed.body if isinstance(node, ast.AnnAssign)}


@pytest.mark.parametrize(("command", "table"), TABLES)
def test_the_function_the_verb_and_the_types_have_every_option(
    command: str, table: dict[str, Option]
) -> None:
    function, typed = {"replay": (replay, "Options"), "plan": (plan, "PlanOptions")}[command]
    parameters = inspect.signature(function).parameters
    assert {name: parameters[name].default for name in table} == {
        name: option.default for name, option in table.items()
    }
    assert all(parameter.kind in (1, 3) for parameter in parameters.values()), "no positional option"
    assert typed_keys(typed) == set(table) - {"policy"}
    verb = {parameter.name: parameter for parameter in load(command).params}
    for name, option in table.items():
        assert f"--{option.typed}" in verb[name].opts
        assert option.help in str(verb[name].help)
        assert f"        {name}: " in str(function.__doc__) or name == "policy"


@pytest.mark.parametrize("option", OPTIONS)
def test_a_default_is_allowed_and_a_wrong_value_is_named(option: Option) -> None:
    assert check(option, option.default) == option.default
    for wrong in (object(), [object()], "no such thing", -1, 2j):
        if option.kind in ("file", "files") and isinstance(wrong, str):
            continue  # the name of a file, which is looked for when it is read
        with pytest.raises(UsageError, match=f"^option {option.typed}: .*: expected "):
            check(option, wrong)
    if option.word:
        assert check(option, option.word) is None


@pytest.mark.parametrize("option", [entry for entry in OPTIONS if entry.values[0].kind == "number"])
def test_the_engine_and_python_have_one_range(option: Option) -> None:
    """Asked of both: numbers at the ends of the range, and on either side."""
    command, run = ("plan", _core.plan) if option in PLAN.values() else ("replay", _core.replay)
    for end in (option.least, option.most, 1.0, 0.0, 1e9, 1e16):
        for value in (end, np.nextafter(end, -np.inf), np.nextafter(end, np.inf)):
            try:
                python = check(option, float(value)) is None
            except UsageError:
                python = True
            engine = False
            try:
                run(JOBS, CLUSTER, {option.name: float(value)}, None)
            except _core.CoreError as error:
                said = str(error)
                engine = said.startswith(f"option {option.typed}: ") and said.endswith(option.expected)
            assert engine is python, (command, option.name, value)


def finishes(result: _core.RunResult) -> list[float]:
    return result.tables["jobs"]["finish"].tolist()


def test_the_engine_takes_what_python_gives_and_names_what_it_refuses() -> None:
    usual = {option.name: option.default for option in REPLAY.values() if option.default is not None}
    del usual["policy"]
    given = _core.replay(JOBS, CLUSTER, usual, None)
    assert finishes(given) == finishes(_core.replay(JOBS, CLUSTER, {}, None))
    for options, kind, said in (
        ({"quantum": "soon"}, TypeError, "argument 'quantum': must be real number, not str"),
        (
            {"estimate_factor": None},
            TypeError,
            "argument 'estimate_factor': must be real number, not NoneType",
        ),
        ({"seed": -1}, OverflowError, ""),
        ({"wrap": 1}, TypeError, "unknown option 'wrap'"),
        ({"model": "ring"}, _core.CoreError, "option model: ring: expected one of rar, fixed"),
    ):
        with pytest.raises(kind, match=f"^{re.escape(said)}"):
            _core.replay(JOBS, CLUSTER, options, None)
    with pytest.raises(KeyError, match="iterations"):
        _core.replay({name: JOBS[name] for name in JOBS if name != "iterations"}, CLUSTER, {}, None)  # type: ignore[arg-type]


def test_run_toml_holds_every_option_in_order(tmp_path: Path, small_jobs: Path) -> None:
    # [tables] tells of files, and a search needs jobs that are trials.
    names = [option.name for option in REPLAY.values() if option.kind not in ("file", "files", "search")]
    given = {"sample": 60.0, "aging": 5.0, "move_cost": 9.0, "resize_cost": 9.0, "interval": 60.0}
    given |= {"max_preemptions": 3, "preempt_after": 9.0, "jobs_per_gpu": 2}
    replay(small_jobs, "2x8", **given, measure_from=0.0, measure_to="1d").write(tmp_path / "r")
    assert list(tomllib.loads((tmp_path / "r/run.toml").read_text())["options"]) == ["command", *names]
    plan(small_jobs, "2x8", sample=60.0).write(tmp_path / "p")
    planned = tomllib.loads((tmp_path / "p/run.toml").read_text())["options"]
    assert set(planned) == {"command", *(option.name for option in PLAN.values())} | set(names) - {
        "aging",
        "interval",
        "jobs_per_gpu",
        "max_preemptions",
        "preempt_after",
        "move_cost",
        "resize_cost",
        "measure_from",
        "measure_to",
    }


def test_an_option_that_is_not_in_the_table_is_refused() -> None:
    for function, name in ((replay, "replay"), (plan, "plan")):
        unknown: Any = {"quantumm": 3.0}
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'quantumm'"):
            function("jobs.csv", "2x8", **unknown)
    assert checked({"kappa": np.int64(3)})["kappa"] == 3


def test_who_uses_an_option_is_what_the_policies_say() -> None:
    typed = {option.typed: option for option in REPLAY.values()}
    for name, preset in PRESETS.items():
        assert all(name in typed[option].policies for option in preset.options)
    for option in REPLAY.values():
        assert all(option.typed in PRESETS[name].options for name in option.policies)
    assert PRESETS["sjf-bco"].options == ("kappa", "lambda", "variant", "aging")
