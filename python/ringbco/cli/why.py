"""`ringbco why`: one job's story."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ringbco.result.why import Story

_SHADES: Final = {"waiting": "·", "resting": "-", "pausing": "▒", "running": "█"} | {
    "prompt": "▒",
    "answering": "█",
}
_PLAIN: Final = {"waiting": ".", "resting": "-", "pausing": "=", "running": "#"} | {
    "prompt": "=",
    "answering": "#",
}
"""The same for a terminal that knows nothing but ASCII."""
_STAYS: Final = 6
"""Stays that are printed: the first ones, and the last."""
_MARKS: Final = {
    "failed": "f",
    "evicted": "e",
    "dropped": "x",
    "limit": "l",
    "preempted": "p",
    "rung": "r",
    "resized": "z",
    "moved": "m",
    "drained": "d",
}
"""How a stay ended; where several ended in one place of the lane, the first of these is shown."""

_ROWS: Final = """
folder
job JOB: The job_id of a job.
request ROW>=0: In place of JOB, a request: its row of the file of requests, the first is 0. The run needs
  --request-rows.
jobs JOBS: The job table that was replayed, Parquet or CSV. [default: the one that run.toml names, if it is
  unchanged]
policy POLICY: For a result of a custom policy, FILE.py:Class or module:Class, loaded if its SHA-256 is the
  recorded one. Without it, the story says what the record shows.
every --all: Print every stay of a job that was stopped often, not only the first and last.
units
as_json --json: Print the story as JSON, times in seconds, and nothing else.
"""


@takes(_ROWS)
def why(
    ctx: typer.Context,
    folder: Path,
    job: str | None = None,
    *,
    request: int | None = None,
    jobs: Path | None = None,
    policy: str | None = None,
    every: bool = False,
    units: str = "human",
    as_json: bool = False,
) -> None:
    """Say what happened to a job, and why: whom it waited for, who held the GPUs, who slowed it.

    Who was ahead in the queue is told by the engine, which repeats the run as far as that takes. All else
    follows from the result. What neither knows is said to be unknown.

    Example: ringbco why results j17
    """
    from ringbco.cli.command import require
    from ringbco.cli.progress import progress_bar
    from ringbco.run.loaded import read_result
    from ringbco.run.probe import why as story_of
    from ringbco.units import check_units, shown_in

    if request is None:
        require(ctx, job=job)
    check_units(units)
    with shown_in(units):
        outcome = read_result(folder)
        with progress_bar(f"asking {outcome.summary.get('policy', '?')}", quiet=as_json) as progress:
            story = story_of(outcome, job, jobs, policy, request, name=str(folder), progress=progress)
        if as_json:
            say_json({"folder": str(folder), **story.to_dict()})
        else:
            _show(folder, story, every=every)


def _show(folder: Path, story: Story, *, every: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from ringbco.io.console import Console
    from ringbco.result.why_request import RequestStory
    from ringbco.units import duration

    console = Console()
    queue = f", queue {story.queue}," if story.queue not in (None, "strict") else ""
    of = f"request {story.request} to {story.service}" if isinstance(story, RequestStory) else story.job
    say(f"{of} in {folder}: {story.policy}{queue} on {story.cluster}")
    if story.lane:
        plain = not console.encoding.lower().startswith("utf")
        for line in _lane(story, console.width, _PLAIN if plain else _SHADES):
            console.print(Text(line), no_wrap=True, crop=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    last: object = None
    stays = max((fact.stay + 1 for fact in story.facts if fact.stay is not None), default=0)
    hidden = range(0) if every or stays <= _STAYS else range(_STAYS - 1, stays - 1)
    for fact in story.facts:
        if fact.stay is not None and fact.stay in hidden:
            if last is not hidden:
                table.add_row("...", f"{len(hidden)} more stays; --all prints them")
            last = hidden
            continue
        known = fact.time is not None and story.submitted is not None
        since = f"+{duration(fact.time - story.submitted)}" if known else ""  # type: ignore[operator]
        table.add_row("" if since == last else since, Text(fact.sentence))
        last = since
    console.print(table)


def _lane(story: Story, width: int, shades: dict[str, str]) -> Iterator[str]:
    """The job's life as a line, what ended its stays below it, and what the letters mean."""
    from ringbco.units import duration

    start, end = story.lane[0].start, story.lane[-1].end
    if end <= start:
        return
    seconds = [dict.fromkeys(shades, 0.0) for _ in range(width)]
    ranks, marks = list(_MARKS), [""] * width
    for part in story.lane:
        begin, until = ((time - start) / (end - start) * width for time in (part.start, part.end))
        for cell in range(int(begin), min(width, int(until) + 1)):
            seconds[cell][part.what] += max(0.0, min(until, cell + 1) - max(begin, cell))
        if part.ended in _MARKS:
            cell = min(width - 1, int(until))
            if not marks[cell] or ranks.index(part.ended) < ranks.index(marks[cell]):
                marks[cell] = part.ended
    shown = [max(cell, key=cell.__getitem__) for cell in seconds]
    yield "".join(shades[what] for what in shown)
    if any(marks):
        yield "".join(_MARKS.get(mark, " ") for mark in marks).rstrip()
    told = [f"{shades[what]} {what}" for what in shades if what in shown]
    told += [f"{_MARKS[word]} {word}" for word in _MARKS if word in marks]
    yield "  ".join([*told, f"({duration((end - start) / width)} a character)"])
