"""What is in a folder, byte for byte, and the one line of a command that was refused."""

from __future__ import annotations

import os
from pathlib import Path

State = dict[str, bytes | str]


def state(root: Path) -> State:
    """What is under a path: bytes of files, texts of links, where folders are."""
    if root.is_symlink():
        return {str(root): os.readlink(root)}
    if root.is_dir():
        result: State = {f"{root}/": "folder"}
        for entry in root.iterdir():
            result |= state(entry)
        return result
    return {str(root): root.read_bytes()} if root.exists() else {}


def one_line(run: object) -> str:
    assert run.returncode == 1  # type: ignore[attr-defined]
    text: str = run.stderr  # type: ignore[attr-defined]
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    return text
