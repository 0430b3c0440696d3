"""The rows of text that a verb's options are: what each form means, and that none is missing."""

from __future__ import annotations

from importlib import import_module
from inspect import CO_VARKEYWORDS
from pathlib import Path
from typing import Any

import pytest
import typer

from ringbco.cli import COMMANDS
from ringbco.cli.options import NETWORK, takes
from ringbco.run.option import Option

ROWS = r"""
source KIND: Which: a, b.
inputs FILE...: The files, in
  any order.
out --out -o DIR: Where to.
[Group of some]
threads N>=2: How many: two \[at least].
share: A part.
vc
quiet
[Options]
by {user|vc}|none: Whose.
scaling --scaling/--no-scaling: Also grow.
*Model
*
every --all: All.
"""
TABLE = {
    "seed": Option("seed", "integer", 7, "Of what is drawn.", "Execution"),
    "model": Option("model", "name", "rar", "What of.", "Model and more", names=("rar", "fixed", "table")),
    "lambda_": Option("lambda", "number", 1.0, "How many times.", "Execution"),
    "by": Option("by", "name", "x", "Not this one: it has a row.", "Execution", names=("x",)),
}


@takes(ROWS, TABLE)
def made_up(
    ctx: typer.Context,
    source: str,
    inputs: list[Path] | None = None,
    *,
    out: Path,
    threads: int | None = None,
    share: float = 0.5,
    vc: str = "split",
    quiet: bool = False,
    by: str | None = None,
    scaling: bool | None = None,
    every: bool = False,
    **options: Any,
) -> None:
    """Nothing."""


@pytest.fixture
def parameters() -> dict[str, Any]:
    app = typer.Typer()
    app.command()(made_up)
    return {
        one.name: one for one in typer.main.get_command(app).params if not one.name.endswith("_completion")
    }


def test_the_order_is_that_of_the_rows(parameters: dict[str, Any]) -> None:
    """The network's constants come with a table, the panels in the order of their first option."""
    entries = ["source", "inputs", "out", "threads", "share", "vc", "quiet", "by", "scaling", "model"]
    assert list(parameters) == [*entries, "seed", "lambda_", *NETWORK, "every"]
    kinds = [parameter.param_type_name for parameter in parameters.values()]
    assert kinds == ["argument"] * 2 + ["option"] * (len(kinds) - 2)


def test_flags_values_and_help(parameters: dict[str, Any]) -> None:
    told = {name: (one.opts, one.metavar, one.help) for name, one in parameters.items()}
    assert told["source"] == (["source"], "KIND", "Which: a, b.")
    assert told["inputs"] == (["inputs"], "FILE...", "The files, in any order.")
    assert told["out"] == (["--out", "-o"], "DIR", "Where to.")
    assert told["threads"] == (["--threads"], "N", r"How many: two \[at least].")
    assert told["share"] == (["--share"], None, "A part.")
    assert told["by"] == (["--by"], "user|vc|none", "Whose.")
    assert told["every"] == (["--all"], None, "All.")
    assert told["lambda_"] == (["--lambda"], None, "How many times.")
    assert parameters["scaling"].secondary_opts == ["--no-scaling"]
    assert (parameters["threads"].type.min, parameters["share"].type.name) == (2, "float")
    assert (parameters["out"].required, parameters["share"].default) == (True, 0.5)
    assert (parameters["inputs"].type.readable, parameters["out"].type.readable) == (False, True)


def test_panels_and_what_is_shared(parameters: dict[str, Any]) -> None:
    panels = {name: getattr(one, "rich_help_panel", None) for name, one in parameters.items()}
    assert [name for name, panel in panels.items() if panel == "Group of some"] == [
        "threads",
        "share",
        "quiet",
    ]
    assert panels["by"] is panels["out"] is panels["every"] is None
    assert (panels["model"], panels["seed"]) == ("Model and more", "Execution")
    assert (panels["vc"], panels["quiet"]) == ("Execution", "Group of some")  # its own one; where it stands
    assert parameters["vc"].help.startswith("Virtual clusters of the cluster:")


@pytest.mark.parametrize(
    ("name", "begun", "offered"),
    [
        ("by", "", ["user", "vc"]),  # those in braces; what stands beside them is not offered
        ("by", "v", ["vc"]),
        ("vc", "p", ["pool"]),
        ("model", "", ["rar", "fixed", "table"]),
        ("threads", "", []),
    ],
)
def test_completion(parameters: dict[str, Any], name: str, begun: str, offered: list[str]) -> None:
    app = typer.Typer()
    app.command()(made_up)
    context = typer.main.get_command(app).make_context("made-up", [], resilient_parsing=True)
    assert [item.value for item in parameters[name].shell_complete(context, begun)] == offered


def test_a_row_without_its_parameter_is_told() -> None:
    with pytest.raises(KeyError, match="typo"):
        takes("typo N: Of a parameter that is not there.")(made_up)


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_parameter_of_a_verb_has_its_row(verb: str) -> None:
    """One without a row could not be given: the verb would always have its default."""
    run = getattr(import_module(f"ringbco.cli.{verb}"), verb)
    code = run.__code__
    own = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    offered = set(run.__signature__.parameters) if hasattr(run, "__signature__") else own
    assert own <= offered
    assert bool(code.co_flags & CO_VARKEYWORDS) == bool(offered - own)
