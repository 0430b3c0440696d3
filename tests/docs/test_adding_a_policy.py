"""docs/adding-a-policy.md: its changes apply to the code as it is, and what it names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-policy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:rust|python|tests|docs)/[\w/.-]+\.(?:rs|py|md))`")
# "`name` and `other` of `path`": the names that a sentence looks for in a file.
OF = re.compile(r"`(\w+)`(?: and `(\w+)`)? (?:of|in) `((?:rust|python|tests)/[\w/.-]+)`")


def applied(root: Path = ROOT) -> dict[str, str]:
    """Every file that the page changes or adds, as it is when all steps are done."""
    made: dict[str, str] = {}
    for kind, path, block in BLOCKS:
        if kind == "rust":
            assert not (root / path).exists(), path
            made[path] = block
            continue
        lines = block.splitlines()
        assert all(not line or line[0] in " +-" for line in lines), block
        before = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        after = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        text = made.get(path) or (root / path).read_text(encoding="utf-8")
        assert f"\n{text}".count(f"\n{before}") == 1, f"{path} does not have, once:\n{before}"
        made[path] = f"\n{text}".replace(f"\n{before}", f"\n{after}", 1)[1:]
    return made


def test_every_change_applies_to_the_code_as_it_is() -> None:
    made = applied()
    assert len(BLOCKS) >= 14
    assert set(made) >= {
        "rust/placement/last_fit.rs", "rust/placement/mod.rs", "rust/options.rs", "rust/policies.rs",
        "rust/reference/place.rs", "python/ringbco/judge/placing.py", "tests/oracle/placement.py",
    }  # fmt: skip
    for path, text in made.items():
        if path.endswith(".py"):
            ast.parse(text)


def test_the_oracle_of_the_page_places_from_the_last_server() -> None:
    scope: dict[str, object] = {}
    text = applied()["tests/oracle/placement.py"]
    rule = re.search(r"^def _last_fit.*?(?=^def |\Z)", text, re.MULTILINE | re.DOTALL)
    assert rule is not None
    exec("from __future__ import annotations\n" + rule[0], scope)
    last_fit, idle = scope["_last_fit"], type("Floor", (), {"idle": [(0, 0), (0, 1), (2, 1), (2, 3)]})
    assert callable(last_fit)
    assert last_fit(3, idle) == [(2, 1), (2, 3), (0, 0)]
    assert last_fit(5, idle) is None


def test_every_file_that_is_named_exists() -> None:
    named = set(PATH.findall(PAGE)) - {path for kind, path, _ in BLOCKS if kind == "rust"}
    assert len(named) >= 15
    assert not [path for path in named if not (ROOT / path).is_file()]


@pytest.mark.parametrize(("first", "second", "path"), OF.findall(PAGE))
def test_every_name_stands_in_its_file(first: str, second: str, path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in filter(None, (first, second)):
        assert re.search(rf"\b{name}\b", text), f"{path}: {name}"


def test_the_four_functions_of_a_choosy_placement_exist() -> None:
    placements = (ROOT / "rust" / "placement" / "mod.rs").read_text(encoding="utf-8")
    for name in ("needs", "can_place", "fits", "fits_empty", "is_monotone"):
        assert name in PAGE
        assert f"fn {name}(" in placements
