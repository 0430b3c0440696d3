"""The reference of the command line, help, completion, colours and the version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from conftest import Invoke, RunCli
from ringbco.cli import COMMANDS
from ringbco.cli.brief import BRIEF
from ringbco.dev.cli_docs import load, pages

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from ringbco.dev.cli_docs import pages; print(pages())"]
    first, second = (
        subprocess.run(command, env={**os.environ, **more}, check=True, cwd=tmp_path, capture_output=True)
        for more in ({"COLUMNS": "40", "FORCE_COLOR": "1"}, {"COLUMNS": "200"})
    )
    assert first.stdout == second.stdout
    assert b"# ringbco replay" in first.stdout
    assert b"\\x1b" not in first.stdout


def test_there_is_a_page_a_verb_which_the_first_one_and_the_site_list() -> None:
    """A page of a verb that is no more would stay, since nothing makes it."""
    names = {path.stem for path in (DOCS / "cli").iterdir()}
    assert names == {"index", *COMMANDS}
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| .+ \|$", pages()["index"], re.MULTILINE)
    assert listed == [(verb, verb) for verb in COMMANDS]
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"- cli/(\w+)\.md$", nav, re.MULTILINE) == ["index", *COMMANDS]


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_is_in_the_reference(verb: str) -> None:
    page = pages()[verb]
    for parameter in load(verb).params:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        if getattr(parameter, "hidden", False):  # refused, with a word on what to do instead
            assert not any(f"`{name}" in page for name in names)
            continue
        for name in names:
            assert str(name).replace("|", "\\|") in page
        assert parameter.help, f"{verb}: {parameter.name} has no help"


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_gives_an_example_that_parses(verb: str, tmp_path: Path) -> None:
    """The example's words are options and arguments that the verb takes."""
    command = load(verb)
    examples = [line for line in command.help.split("\n\n") if line.startswith("Example: ")]
    assert examples, f"{verb} --help has no example"
    for example in examples:
        words = example.removeprefix("Example: ").split()
        assert words[:2] == ["ringbco", verb]
        command.make_context(verb, words[2:])


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("verb", COMMANDS)
def test_help_keeps_to_the_terminals_width(verb: str, columns: int, invoke: Invoke) -> None:
    os.environ["COLUMNS"] = str(columns)  # the fixture puts it back
    for asked in ["--help", "--help-all"] if verb in BRIEF else ["--help"]:
        run = invoke(verb, asked)
        assert run.returncode == 0
        assert max(map(len, run.stdout.splitlines())) <= columns


@pytest.mark.parametrize("verb", BRIEF)
def test_the_help_of_verbs_with_many_options_is_brief(verb: str, invoke: Invoke) -> None:
    """On 80 columns. It says how many options are left, and --help-all has every one."""
    os.environ["COLUMNS"] = "80"  # the fixture puts it back
    brief = invoke(verb, "--help").stdout
    whole = invoke(verb, "--help-all").stdout
    assert len(brief.splitlines()) <= 45
    names = [parameter.opts[0] for parameter in load(verb).params if parameter.param_type_name == "option"]
    result = {
        text: {name for name in names if re.search(rf"^(│[* ]+)?{name}[\s,]", text, re.MULTILINE)}
        for text in (brief, whole)
    }
    assert result[brief] == {*BRIEF[verb]}
    assert result[whole] == {*names}
    assert f"--help-all also shows the {len(names) - len(BRIEF[verb])} other options" in brief


@pytest.mark.long
def test_no_colour_where_none_is_wanted(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    """Even where a colour terminal is claimed."""
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "xterm-256color"}
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r", "--quiet").returncode == 0
    for arguments in (["--help"], ["replay", "--help"], ["audit", "r"], ["inspect", str(small_jobs)]):
        run = subprocess.run(
            [sys.executable, "-m", "ringbco", *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        assert b"\x1b[3" not in run.stdout, arguments


def test_the_version_tells_the_build(run_cli: RunCli) -> None:
    run = run_cli("--version")
    assert run.returncode == 0
    first, *facts = run.stdout.splitlines()
    assert first == f"ringbco {version('ringbco')}"
    told = dict(fact.split(maxsplit=1) for fact in facts)
    assert f"polars {version('polars')}" in told["packages"]
    assert "abi3" in told["built"]
    assert told["Python"].startswith(".".join(map(str, sys.version_info[:3])))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["ringbco", "rep"], "replay"),
        (["ringbco", "rep"], "report"),
        (["ringbco", "timeline", "--ser"], "--servers"),
        (["ringbco", "replay", "--policy", "sjf-"], "sjf-bco"),
        (["ringbco", "compare", "--policy", "tir"], "tiresias"),
        (["ringbco", "plan", "--dispatch", "res"], "reserve"),
    ],
)
def test_completion(typed: list[str], offered: str) -> None:
    """What bash's completion gets: verbs, and the options of a verb whose module is loaded for it."""
    environment = {
        **os.environ,
        "_RINGBCO_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": str(len(typed) - 1),
    }
    code = "from ringbco.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert offered in run.stdout.split()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_gives_one_line_an_option(shell: str) -> None:
    """Fish and zsh would take the second line of an option's help for another option."""
    environment = {
        **os.environ,
        "_RINGBCO_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "ringbco replay --",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = "from ringbco.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    lines = run.stdout.splitlines()
    assert len(lines) > 20
    assert all("--" in line[:30] for line in lines)
