"""Where tests lie: in the folders that docs/architecture.md lists, a name once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parents[1]
PAGE: Final = (TESTS.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
CHAPTER: Final = PAGE.split("\n## The folders of the tests\n")[1].split("\n## ")[0]
FOLDERS, BESIDE = (
    set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    for table in CHAPTER.split("Shared code lies in these folders.")
)
MODULES: Final = [path.relative_to(TESTS) for path in TESTS.rglob("*.py")]
TEST_MODULES: Final = [path for path in MODULES if path.name.startswith("test_")]
IMPORTED: Final = re.compile(r"^\s*(?:from|import) (test_\w+)", re.MULTILINE)


def test_every_test_lies_in_a_folder_of_the_list() -> None:
    assert len(TEST_MODULES) > 150
    astray = [str(path) for path in TEST_MODULES if path.parent.as_posix() not in FOLDERS]
    assert astray == []


def test_the_list_has_every_folder_and_no_other() -> None:
    assert {path.parent.as_posix() for path in TEST_MODULES} == FOLDERS
    assert {path.parent.as_posix() for path in MODULES} == FOLDERS | BESIDE | {"."}
    assert [path.name for path in MODULES if path.parent == Path()] == ["conftest.py"]


def test_no_two_tests_have_one_name() -> None:
    names = Counter(path.name for path in TEST_MODULES)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_test_imports_one_of_another_folder() -> None:
    folder = {path.stem: path.parent for path in TEST_MODULES}
    imports = [
        (str(path), name)
        for path in MODULES
        for name in IMPORTED.findall((TESTS / path).read_text(encoding="utf-8"))
        if folder.get(name) != path.parent
    ]
    assert imports == []
