"""SWF: processors as GPUs, -1 as unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from raw import swf
from raw.agreement import converted
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.source import Options

LINE = "1 10 5 100 8 -1 -1 8 3600 -1 1 7 1 -1 2 -1 -1 -1"


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    result = converted("swf", swf.generate(seed), tmp_path, want_cluster=True)
    assert result.epoch == "2001-09-09T01:46:40Z"
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [8] * 16


def test_strict_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; Version: 2.2\n\n{LINE}\n; between\n{LINE.replace('1 10 5 100', '2 11 5 -1')}\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 2 (line 5), column run_time: -1: expected a number of seconds; "
        "without --strict: dropped, run_time missing or unreadable"
    )
    path.write_text(f"{LINE}\n{LINE} 4\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path], Options(strict=True))
    assert str(caught.value).startswith(
        f"{path}: row 2 (line 2), column line: '{LINE} 4': expected 18 numbers"
    )


def test_a_log_without_a_known_cluster(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    for header in ("", "; MaxNodes: 3\n; MaxProcs: 8\n", "; MaxProcs: 8\n"):
        path.write_text(f"{header}{LINE}\n")
        assert convert("swf", [path]).table.metadata["ringbco.epoch"] == "1970-01-01T00:00:00"
        with pytest.raises(UsageError, match="its header would have to give MaxNodes and MaxProcs"):
            convert("swf", [path], Options(want_cluster=True))


def test_a_first_line_of_another_length_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; Version: 2.2\n1 2 3\n")
    with pytest.raises(InputError) as caught:
        convert("swf", [path])
    assert str(caught.value) == f"{path}: line 2: '1 2 3': expected 18 numbers separated by blanks"
