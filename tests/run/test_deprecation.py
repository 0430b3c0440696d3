"""Public names that changed work for one more version, with a warning that names the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco as rb
from ringbco.deprecation import GONE_IN
from ringbco.trace.outages import Outages
from ringbco.trace.side_table import Known


def deprecated(call: Callable[[], Any], new: str) -> Any:
    """What the call gives, once it has warned of the new name and of the version without the old one."""
    with pytest.warns(DeprecationWarning, match="is called") as seen:
        found = call()
    text = str(seen[0].message)
    assert f"is called {new} now" in text
    assert f"goes in ringbco {GONE_IN}" in text
    assert seen[0].filename == __file__, "the warning is of the caller's line"
    return found


JOBS = rb.generate("philly", 40, 3, gpus=32)
TYPED = rb.Cluster([4, 4], server_cpu_memory=[(1, 2), (3, 4)])
OUTAGES = Outages.read(pl.DataFrame({"server": [0], "down_at": [1.0], "up_at": [2.0]}), Known(servers=1))
CASES: dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]] = {
    "Cluster.server_beside": (
        "server_cpu_memory",
        lambda: TYPED.server_beside,
        lambda: TYPED.server_cpu_memory,
    ),
    "Cluster(server_beside=)": (
        "server_cpu_memory",
        lambda: rb.Cluster([4, 4], server_beside=[(1, 2), (3, 4)]),
        lambda: TYPED,
    ),
    "Cluster.told": ("to_dict()", lambda: TYPED.told, TYPED.to_dict),
    "JobTable.told": ("identity", lambda: JOBS.told, lambda: JOBS.identity),
    "Outages.told": ("identity", OUTAGES.told, lambda: OUTAGES.identity),
}


@pytest.mark.parametrize("name", CASES)
def test_an_old_name_warns_and_gives_the_same(name: str) -> None:
    new, old, now = CASES[name]
    assert deprecated(old, new) == now()


def test_the_old_names_of_write(tmp_path: Path) -> None:
    deprecated(lambda: OUTAGES.save(tmp_path / "old.csv"), "write")
    OUTAGES.write(tmp_path / "new.csv")
    assert (tmp_path / "old.csv").read_bytes() == (tmp_path / "new.csv").read_bytes()


def test_both_names_of_a_parameter_are_refused() -> None:
    with pytest.raises(TypeError, match="expected one of them, server_cpu_memory"):
        rb.Cluster([4], server_beside=[(1, 2)], server_cpu_memory=[(1, 2)])
