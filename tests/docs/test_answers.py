"""Pages of questions: their commands run as they stand there, and print what the pages say."""

import re
from pathlib import Path

import pytest

import page_tables
import question_answers as made

QUESTIONS = [page for page in made.PAGES if page.stem != "why"]  # tests/cli asks why
# As many tables as the time in the engine leaves room for; the version.
VARIES = re.compile(r"^\d+ tables, |ringbco \d[\w.]*", re.MULTILINE)
FIGURE = re.compile(r"\d[\d.]* %|\d+\.\d+ (?:h|min)\b|\d+ GPUs|\[[-\d., ]+\]")


@pytest.mark.parametrize("page", made.PAGES, ids=lambda page: page.stem)
def test_what_is_cut_stands_on_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    on_page = page_tables.marked(text)
    assert len(on_page) == text.count("<!-- table: ")
    assert set(made.CUTS[page.stem]) <= set(on_page)


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_every_question_has_a_command_and_figures_of_its_output(page: Path) -> None:
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        shown = page_tables.marked(rest)
        assert title.endswith("?")
        assert len(shown) == 1 or title == "What should a paper state?"
        output = "".join(shown.values()).replace(" %", "%")
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
@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_the_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    on_page = page_tables.marked(page.read_text(encoding="utf-8"))
    for name, told in made.answers(page, tmp_path):
        assert VARIES.sub("*", told) == VARIES.sub("*", on_page[name]), (
            "run: python benches/question_answers.py"
        )
