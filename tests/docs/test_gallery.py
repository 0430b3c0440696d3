"""docs/gallery.md: a picture above its command, which the program knows."""

import re
import shlex

import pytest

import gallery as made
from ringbco.cli import load

TEXT = made.PAGE.read_text(encoding="utf-8")
BLOCKS = made.blocks(TEXT)
COMMANDS = [
    line
    for command, _ in BLOCKS
    for line in command.replace("\\\n", "").splitlines()
    if line.startswith("ringbco ")
]


def test_every_picture_has_a_command_and_is_there() -> None:
    above = [name for _, name in BLOCKS if name]
    assert re.findall(r"images/gallery/([\w.-]+)", TEXT) == above
    assert sorted(path.name for path in made.IMAGES.iterdir()) == sorted(above)
    assert set(made.SCENES) <= set(above)
    assert 2 * len(BLOCKS) == len(re.findall("^```$", TEXT, re.MULTILINE))
    assert sum(path.stat().st_size for path in made.IMAGES.iterdir()) < 600_000


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_are_known(line: str) -> None:
    _, verb, *words = shlex.split(line)
    load(verb).make_context(verb, words)


def test_the_command_below_a_picture_makes_it() -> None:
    """By its name: the file that it writes, or the page of which the picture is."""
    for command, name in BLOCKS:
        if name:
            start = name.partition("-")[0].partition(".")[0]
            assert re.search(rf"(-o|--png) {start}\b", command), name
