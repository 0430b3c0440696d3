"""The program of docs/operators.md prints what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(
        r"```python title=.*?\n(.*?)```\n```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S
    )
    assert blocks
    for program, printed in blocks:
        exec(compile(program, PAGE.name, "exec"), {})
        assert capsys.readouterr().out == printed
