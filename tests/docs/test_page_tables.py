"""Tables of pages are what they are made of; commands of pages of questions print what the pages say."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import page_tables
import pages
from conftest import SHARED, present

QUESTIONS = [row for row in pages.ROWS if not row.mark and row.page != "why"]  # tests/cli asks why
QUICK = [row for row in pages.ROWS if row.mark and not row.slow]
SLOW = [row for row in pages.ROWS if row.slow and row.needs]
FIGURE = re.compile(r"\d[\d.]* %|\d+\.\d+ (?:h|min)\b|\d+ GPUs|\[[-\d., ]+\]")


def test_every_mark_has_a_row() -> None:
    """But on pages of questions, all of whose marks are of one row."""
    made = {row.name for row in pages.ROWS}
    for path in pages.DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        on_page = page_tables.marked(text)
        assert len(on_page) == text.count("<!-- table: "), path
        page = path.relative_to(pages.DOCS).with_suffix("").as_posix()
        if page in pages.CUTS:
            assert set(pages.CUTS[page]) <= set(on_page)
        else:
            assert {pages.named(page, mark) for mark in on_page} <= made


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row.page)
def test_every_question_has_a_command_and_figures_of_its_output(row: pages.Row) -> None:
    for section in row.path.read_text(encoding="utf-8").split("\n## ")[1:]:
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
    assert pages.cut(text, ()) == "a\n\nb\nc\n\nd\ne"
    assert pages.cut(text, (("b", "c"), ("e", ""))) == "...\nb\n...\ne"
    assert pages.cut(text, (("a", "b"), ("c", "e"))) == "a\n...\nc\n\nd\n..."
    with pytest.raises(ValueError, match="no line has 'b'"):
        pages.cut(text, (("c", "d"), ("b", "")))


def changed(row: pages.Row, given: pages.TableInputs) -> dict[str, list[str]]:
    """How a row differs from what stands, by mark."""
    stands = row.stands()
    result = {mark: pages.differences(stands[mark], text, given) for mark, text in row.made(given)[0].items()}
    return {mark: lines for mark, lines in result.items() if lines}


def least(row: pages.Row) -> pages.TableInputs:
    """A part of what it is made of."""
    given = pages.TableInputs(SHARED / "traces", SHARED / "peers", least=True)
    if row.needs:
        present(SHARED / row.needs)
    return given


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_a_table_is_what_it_is_made_of(row: pages.Row) -> None:
    assert changed(row, least(row)) == {}, f"run: make pages ROW={row.name}"


@pytest.mark.long
@pytest.mark.parametrize("row", SLOW, ids=lambda row: row.name)
def test_a_large_table_is_what_it_is_made_of(row: pages.Row) -> None:
    assert changed(row, least(row)) == {}, f"run: make pages ROW={row.name}"


@pytest.mark.long
@pytest.mark.pages
@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row.page)
def test_the_commands_print_what_the_page_says(row: pages.Row) -> None:
    assert changed(row, pages.TableInputs()) == {}, f"run: make pages ROW={row.page}"


def test_a_line_that_differs_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    page = tmp_path / "some.md"
    page.write_text("above\n<!-- table: one -->\n\na 1\nb 2\n<!-- end -->\nbelow\n")
    row = pages.Row("some", "one", lambda given: given.some(["a 1 ", pages.Note("said"), "b 3"]))
    assert not pages.check(row, pages.TableInputs(), write=False)
    output = capsys.readouterr().out
    assert [one.strip() for one in output.splitlines()[1:]] == ["said", "one:", "-b 2", "+b 3"]
    assert pages.check(replace(row, measured=True), pages.TableInputs(), write=False)
    assert pages.check(row, pages.TableInputs(), write=True)
    assert page.read_text() == "above\n<!-- table: one -->\na 1\nb 3\n<!-- end -->\nbelow\n"
    assert pages.check(row, pages.TableInputs(), write=False)
    # Of a part each line has to stand; of fewer draws none has to.
    part = pages.TableInputs(least=True)
    assert pages.differences("a\nb", "b", part) == []
    assert pages.differences("a\nb", "c", part) == ["+c"]
    assert part.draws(9) == 2
    assert pages.differences("a\nb", "c", part) == []
