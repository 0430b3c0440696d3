"""TOML files that are anything but what was hoped for."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Invoke
from ringbco.errors import InputError
from ringbco.io.toml import read_toml

ODD = {
    "an integer of many digits": b"a = " + b"1" * 5000,
    "deeply nested": b"a = " + b"[" * 20_000 + b"]" * 20_000,
    "not UTF-8": b'a = "\xff"',
    "no TOML": b"a = = b",
    "a null byte": b"a\x00 = 1",
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_an_odd_file_is_one_line(tmp_path: Path, data: bytes, small_jobs: Path, invoke: Invoke) -> None:
    path = tmp_path / "odd.toml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"odd\.toml: is not (valid|readable as) TOML") as caught:
        read_toml(path)
    assert "\n" not in str(caught.value)
    runs = (
        invoke("replay", small_jobs, "--cluster", "odd.toml", "-o", "r"),
        invoke("sweep", "odd.toml", "-o", "r"),
    )
    for run in runs:
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
        assert run.stderr.startswith("error: odd.toml: is not ")
        assert "unexpected" not in run.stderr
    assert not Path("r").exists()
