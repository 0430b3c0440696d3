"""docs/adding-a-*.md: their changes apply to the code as it is, and lead to where they say.

The long tests make the changes in a copy of the project and run the commands there. Two of them build the
engine anew, which takes minutes: `make test-pages` runs those, and the copy is kept in target/pages.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from followed_page import BUILT, ROOT, Page, follow, follow_and_build

NAMES: Final = ("adding-a-column.md", "adding-a-figure.md", "adding-a-policy.md")
POLICY: Final = Page("adding-a-policy.md")
# "`name` and `other` of `path`": the names that a sentence looks for in a file.
OF: Final = re.compile(r"`(\w+)`(?: and `(\w+)`)? (?:of|in) `((?:rust|python|tests)/[\w/.-]+)`")


@pytest.mark.parametrize("name", NAMES)
def test_every_change_applies_and_every_file_that_is_named_exists(name: str) -> None:
    page = Page(name)
    made = page.applied()
    assert len(page.files) >= 4
    assert page.missing() == []
    for path, text in made.items():
        if path.endswith(".py"):
            for words in (("check",), ("format", "--check")):
                ruff = [sys.executable, "-m", "ruff", *words, "--quiet", "--stdin-filename", path, "-"]
                done = subprocess.run(ruff, cwd=ROOT, input=text, check=False, capture_output=True, text=True)
                assert done.returncode == 0, f"{path}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize(("first", "second", "path"), OF.findall("".join(Page(name).text for name in NAMES)))
def test_every_name_stands_in_its_file(first: str, second: str, path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in filter(None, (first, second)):
        assert re.search(rf"\b{name}\b", text), f"{path}: {name}"


def test_the_four_functions_of_a_choosy_placement_exist() -> None:
    placements = (ROOT / "rust" / "placement" / "mod.rs").read_text(encoding="utf-8")
    for name in ("needs", "can_place", "fits", "fits_empty", "is_monotone"):
        assert name in POLICY.text
        assert f"fn {name}(" in placements


@pytest.mark.long
def test_a_figure_is_one_row_one_formula_and_words(tmp_path: Path) -> None:
    printed = follow(Page("adding-a-figure.md"), tmp_path / "project")
    assert "docs/results-reference.md\n" in printed
    assert "longest run" in printed
    page = (tmp_path / "project" / "docs" / "results-reference.md").read_text(encoding="utf-8")
    assert "| longest_run | longest run | time | least | run, vc, class |" in page


@pytest.mark.long
@pytest.mark.pages
def test_a_column_is_stated_once() -> None:
    printed = follow_and_build(Page("adding-a-column.md"))
    assert "docs/job-table.md\n" in printed
    made = (BUILT / "docs" / "job-table.md").read_text(encoding="utf-8")
    assert (
        "| urgency | float64 |  | > 0: how many times as urgent as others the job is to `sjf`; empty: 1 |"
        in made
    )


@pytest.mark.long
@pytest.mark.pages
def test_a_policy_is_a_rule_its_references_and_a_line() -> None:
    printed = follow_and_build(POLICY)
    assert "docs/policies.md\n" in printed
    assert "| `lf` | " in (BUILT / "docs" / "policies.md").read_text(encoding="utf-8")
