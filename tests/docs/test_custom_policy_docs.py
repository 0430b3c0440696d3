"""docs/custom-policies.md: each block runs and prints what the page says; its reference is complete."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "custom-policies.md"
REFERENCE = ROOT / "docs" / "custom-policies-reference.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of each fenced block."""
    return [
        (match[1], match[2] or "", match[3]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def printed(code: str, scope: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, scope)
    return out.getvalue()


def run_page(page: Path, other: Callable[[str, str, str], None] | None = None) -> None:
    """Runs each block of Python of the page; below it stands what it prints.

    other: does what a block of another language, or one with a title, asks for.
    """
    scope: dict[str, Any] = {"__name__": "page"}
    unread = ""
    for kind, title, text in blocks(page):
        if kind == "text":
            assert text == unread
            unread = ""
            continue
        assert not unread, f"printed and not on the page: {unread}"
        if kind == "python" and not title:
            unread = printed(text, scope)
        else:
            assert other is not None, f"no block of Python: {kind}"
            other(kind, title, text)
    assert not unread


def check_commands(text: str, invoke: Invoke) -> None:
    """Commands stand after a `$`, what they print below it, without blanks at ends of lines.

    `...` is any number of lines.
    """
    for part in re.split(r"^\$ ringbco ", text.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
        command, _, told = part.partition("\n")
        run = invoke(*shlex.split(command))
        assert run.returncode == 0, run.stderr
        wanted = re.escape(told).replace(re.escape("...\n"), r"(?:.*\n)*")
        shown = re.sub(r" +$", "", run.stdout, flags=re.MULTILINE)
        assert re.fullmatch(wanted, shown), shown


def test_every_block_of_the_page_does_what_it_says(invoke: Invoke, tmp_path: Path) -> None:
    def other(kind: str, title: str, text: str) -> None:
        if kind == "console":
            check_commands(text, invoke)
        elif kind == "toml" and not title:
            record = tomllib.loads((tmp_path / "turns" / "run.toml").read_text())
            assert tomllib.loads(text) == {"own_policy": record["own_policy"]}
        else:
            assert kind in ("python", "toml")
            assert title
            (tmp_path / title).write_text(text)

    run_page(PAGE, other)
    for file in ("jobs", "allocations", "timeline"):
        first, again = (tmp_path / folder / f"{file}.parquet" for folder in ("turns", "again"))
        assert first.read_bytes() == again.read_bytes()


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the reference."""
    section = REFERENCE.read_text(encoding="utf-8").split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = section[section.index("| ---") :].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


SEEN = [(cells, False) for cells in rows_of("## What a policy sees")]
CLAIRVOYANT = [(cells, True) for cells in rows_of("### With clairvoyant = True")]


@pytest.mark.parametrize(
    ("cells", "hidden"), SEEN + CLAIRVOYANT, ids=lambda value: value[0] if isinstance(value, list) else ""
)
def test_the_table_of_what_a_policy_sees_is_right(cells: list[str], hidden: bool) -> None:
    """Length and dtype of each array, and who may read it."""
    table = ringbco.generate("philly", 20, seed=1, gpus=64)
    run = ringbco.Simulation(table, "4x8", placement="first-fit")
    run.advance()
    names, per, dtype, meaning = cells
    if "`free_shares`" in names or "`gpus_of(" in names:
        assert "where the job table has [shares]" in meaning
        frame = table.frame.with_columns(gpu_share=pl.when(pl.col("num_gpus") == 1).then(0.5))
        table = ringbco.from_frame(frame)
        run = ringbco.Simulation(table, "4x8", placement="first-fit")
        run.advance()
    for name in re.findall(r"`(\w+)(?=[`(.\[])", names):
        if name == "jobs":
            assert run.state.jobs.num_gpus.shape == (20,)
            continue
        seen = getattr(run.state, name)
        if isinstance(seen, np.ndarray):
            assert str(seen.dtype) in dtype.split(", ")
            assert not seen.flags.writeable
            assert len(seen) == {"server": 4, "row": 20, "GPU": 32}.get(per, len(seen))
        blind = type("Blind", (ringbco.Policy,), {"decide": lambda self, state, name=name: look(state, name)})
        if hidden:
            with pytest.raises(AttributeError, match="clairvoyant"):
                ringbco.replay(table, "4x8", policy=blind, placement="first-fit")
        else:
            ringbco.replay(table, "4x8", policy=blind, placement="first-fit")
        if "book it" in meaning:
            ringbco.replay(table, "4x8", policy=blind, placement="sjf-bco")


def look(state: Any, name: str) -> None:
    result = getattr(state, name)
    if name == "fork":
        result()
    state.start(state.waiting)


def test_the_table_of_verbs_is_whole() -> None:
    told = {re.match(r"`(\w+)", cells[0])[1] for cells in rows_of("## What a policy does")}  # type: ignore[index]
    assert told == {"start", "evict_for", "stop", "move", "resize", "refuse", "end", "wake"}
    assert all(hasattr(ringbco.Simulation, verb) for verb in told)


def test_each_virtual_cluster_has_a_policy_of_its_own(tmp_path: Path) -> None:
    """What the page says of them: a copy each, arrays of the whole length, 0 on servers of others."""
    cluster = tmp_path / "c.toml"
    cluster.write_text(
        '[[servers]]\ncount = 1\ngpus = 8\nvc = "x"\n[[servers]]\ncount = 1\ngpus = 4\nvc = "y"\n'
    )
    table = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 0.0, 9.0],
            "num_gpus": [4, 4, 2],
            "duration": [5.0, 5.0, 5.0],
            "vc": ["x", "y", "x"],
        }
    )
    seen = []

    class Watcher(ringbco.Policy):
        calls = 0

        def decide(self, state: Any) -> None:
            self.calls += 1
            seen.append(
                (
                    self.calls,
                    state.now,
                    [*state.waiting],
                    [*state.idle],
                    [*state.gpus],
                    len(state.U),
                    state.vc,
                )
            )
            state.start(state.waiting)

    policy = Watcher()
    ringbco.replay(table, cluster, policy=policy, model="fixed")
    names = ("x", "y")
    assert seen == [
        (1, 0.0, [0], [8, 0], [8, 4], 8, names),
        (2, 5.0, [], [8, 0], [8, 4], 8, names),
        (3, 9.0, [2], [8, 0], [8, 4], 8, names),
        (1, 0.0, [1], [0, 4], [8, 4], 4, names),
    ]
    assert policy.calls == 0
