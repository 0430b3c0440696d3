"""docs/answers.md: its commands run as they stand there, and print what it says."""

import re
from pathlib import Path

import pytest

import page_tables
import question_answers as made

PAGE = made.PAGE.read_text(encoding="utf-8")
ON_PAGE = page_tables.marked(PAGE)
# As many tables as the time in the engine leaves room for; the version.
VARIES = re.compile(r"^\d+ tables, |ringbco \d[\w.]*", re.MULTILINE)
FIGURE = re.compile(r"\d[\d.]* %|\d+\.\d+ (?:h|min)\b|\d+ GPUs|\[[-\d., ]+\]")


def test_the_page_has_the_commands_of_the_script_in_order() -> None:
    assert list(ON_PAGE) == list(made.ANSWERS)
    for name, one in made.ANSWERS.items():
        assert ON_PAGE[name].startswith(f"```\n{one.command}\n```"), "run: python benches/question_answers.py"


def test_figures_in_the_text_are_those_of_the_output() -> None:
    for section in PAGE.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        output = "".join(page_tables.marked(rest).values()).replace(" %", "%")
        text = re.sub(r"(?s)```.*?```", "", rest)
        missing = [figure for figure in FIGURE.findall(text) if figure.replace(" %", "%") not in output]
        assert missing == [], title


def test_a_cut_keeps_parts_and_says_where_lines_are_left_out() -> None:
    text = "a\n\nb \nc\n\nd\ne\n"
    assert made.cut(text, ()) == "a\n\nb\nc\n\nd\ne"
    assert made.cut(text, (("b", "c"), ("e", ""))) == "...\nb\n...\ne"
    assert made.cut(text, (("a", "b"), ("c", "e"))) == "a\n...\nc\n\nd\n..."
    with pytest.raises(ValueError, match="no line has 'b'"):
        made.cut(text, (("c", "d"), ("b", "")))


@pytest.mark.long
@pytest.mark.pages
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    for name in made.ANSWERS:
        told = made.answer(name, tmp_path)
        assert VARIES.sub("*", told) == VARIES.sub("*", ON_PAGE[name]), name
