"""Pages that show changes: what they change, and a copy of the project in which their steps are done."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
BUILT: Final = ROOT / "target" / "pages" / "project"
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_PATH: Final = re.compile(r"`((?:rust|python|tests|docs)/[\w/.-]+\.(?:rs|pyi?|md|tsv))`")


class Block(NamedTuple):
    """A block of a page. kind: diff, the language of a new file, or sh; path: "" of what is no file."""

    kind: str
    path: str
    text: str


class Page:
    """A page of docs/ and its blocks, in order."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        self.blocks = [Block(*parts) for parts in _BLOCK.findall(self.text)]
        self.files = [block for block in self.blocks if block.path]

    def applied(self) -> dict[str, str]:
        """Every file that the page changes or adds, as it is when all steps are done."""
        made: dict[str, str] = {}
        for block in self.files:
            before = made.get(block.path)
            if before is None and (ROOT / block.path).exists():
                before = (ROOT / block.path).read_text(encoding="utf-8")
            made[block.path] = changed(before, block)
        return made

    def missing(self) -> list[str]:
        """Files that the page names and that neither exist nor are made by it."""
        known = {block.path for block in self.files}
        return [
            path for path in _PATH.findall(self.text) if path not in known and not (ROOT / path).is_file()
        ]


def changed(before: str | None, block: Block) -> str:
    """What a block makes of the text of its file; None: there is no such file."""
    if block.kind != "diff":
        assert before is None, f"{block.path} is there already"
        return block.text
    assert before is not None, f"{block.path} is not there"
    lines = block.text.splitlines()
    assert all(not line or line[0] in " +-" for line in lines), block.text
    old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    assert f"\n{before}".count(f"\n{old}") == 1, f"{block.path} does not have, once:\n{old}"
    return f"\n{before}".replace(f"\n{old}", f"\n{new}", 1)[1:]


def follow(page: Page, project: Path) -> str:
    """Does what the page says in a copy of the project, step by step; what its commands print."""
    _copy(project)
    return _followed(page, project, build=False)


def follow_and_build(page: Page) -> str:
    """The same where `make generate` builds the engine: in BUILT, with what the project has built already."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with open(BUILT.parent / "lock", "w") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        _copy(BUILT)
        return _followed(page, BUILT, build=True)


def _followed(page: Page, project: Path, *, build: bool) -> str:
    printed = []
    for block in page.blocks:
        if block.path:
            path = project / block.path
            before = path.read_text(encoding="utf-8") if path.exists() else None
            path.write_text(changed(before, block), encoding="utf-8")
        elif block.kind == "sh":
            script = block.text.replace("make generate", _BUILD) if build else block.text
            printed.append(_run(script, project))
    return "".join(printed)


_BUILD: Final = """\
cargo build --locked --profile develop --features python
cp "$CARGO_TARGET_DIR"/develop/libringbco.so python/ringbco/_core.abi3.so
python -m ringbco.dev.generate"""


def _copy(project: Path) -> None:
    """The tracked files of the project, and its built engine; files keep their times, for cargo."""
    shutil.rmtree(project, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, project / name)
    for built in (ROOT / "python" / "ringbco").glob("_core*.so"):
        shutil.copy2(built, project / "python" / "ringbco" / built.name)


def _run(script: str, project: Path) -> str:
    folder = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(project / "python")}
    env |= {"PYO3_PYTHON": sys.executable, "CARGO_TARGET_DIR": str(ROOT / "target")}
    env |= {"PROPTEST_RNG_SEED": "1"}
    for name in ("PYTEST_ADDOPTS", "RINGBCO_CASES"):
        env.pop(name, None)
    bash = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(bash, check=False, cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
