"""No JSON of ringbco's holds NaN or infinity, which JSON does not have."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Invoke
from ringbco.io.json_text import json_text

PACKAGE = Path(__file__).parents[2] / "python" / "ringbco"


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_json_does_not_have_is_a_text() -> None:
    value = {"a": math.inf, "b": [-math.inf, {"c": math.nan}], "d": (1.5, None, True, "x")}
    assert strict(json_text(value)) == {"a": "inf", "b": ["-inf", {"c": "nan"}], "d": [1.5, None, True, "x"]}
    finite = {"b": 1, "a": [0.1, "é"]}
    assert json_text(finite) == json.dumps(finite, indent=2)
    assert json_text(finite, indent=None, sort_keys=True) == json.dumps(finite, sort_keys=True)
    assert strict(json_text({"p": Path("x"), "q": math.inf}, default=str)) == {"p": "x", "q": "inf"}


def test_every_document_is_written_by_that_function() -> None:
    """`json.dumps` is left where a text is quoted, hashed, or made of counts alone."""
    allowed = {
        *("cluster/spec.py", "dev/generate.py", "io/json_text.py", "reports/perfetto.py", "reports/sheet.py"),
        *("reports/drawing.py", "reports/names.py", "run/options.py", "sources/remedies.py"),
        *("reports/pictures.py", "reports/player_data.py", "reports/svg.py", "reports/templates.py"),
        *("sources/account.py", "sources/json_lines.py", "sources/openb.py"),
        *("cluster/keys.py", "sweeps/spec.py", "trace/jobs.py"),
    }
    using = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"json\.(dumps?|JSONEncoder)\b", path.read_text(encoding="utf-8"))
    }
    assert using <= allowed


@pytest.mark.long
def test_a_sweep_with_an_endless_setting(invoke: Invoke, small_jobs: Path) -> None:
    Path("s.toml").write_text(
        '[base]\ntrace = "small.csv"\ncluster = "2x8"\npolicy = "srtf"\n'
        "[grid]\ncheckpoint-interval = [60.0, inf]\n"
    )
    assert invoke("sweep", "s.toml", "-o", "s", "-q").returncode == 0
    documents = list(Path("s").rglob("*.json"))
    assert len(documents) == 3
    for path in documents:
        strict(path.read_text())
    assert strict(Path("s/sweep.json").read_text())["spec"]["grid"]["checkpoint-interval"] == [60.0, "inf"]
    done = invoke("report", "s", "-o", "s.html", "--json")
    assert done.returncode == 0, done.stderr
    strict(done.stdout)
