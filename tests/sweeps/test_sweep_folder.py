"""The folder of a sweep: nothing of others is replaced, and no record is believed that no sweep wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Invoke
from folders import one_line, state
from ringbco.errors import InputError, RingbcoWarning
from ringbco.sweeps.run import sweep
from test_sweep import TIMES


def test_a_sweep_json_of_somebody_else_is_left_alone(spec: Path, tmp_path: Path, invoke: Invoke) -> None:
    for name, text in (("a", '{"spec": 1}'), ("b", '{"mine": 1}'), ("c", "mine"), ("d", "[]")):
        (tmp_path / name / "runs").mkdir(parents=True)
        (tmp_path / name / "sweep.json").write_text(text)
        before = state(tmp_path)
        said = one_line(invoke("sweep", spec, "-o", name))
        assert f"{name}/sweep.json: is no record of a sweep of ringbco's, so it is not replaced" in said
        assert state(tmp_path) == before
    (tmp_path / "a" / "sweep.json").unlink()
    assert "a: already exists and is no sweep's folder" in one_line(invoke("sweep", spec, "-o", "a"))


@pytest.mark.parametrize("name", ["runs.parquet", "sweep.json", "runs", "record"])
@pytest.mark.parametrize("how", ["link", "folder", "file", "table"])
def test_what_others_put_in_the_place_of_ours(spec: Path, tmp_path: Path, name: str, how: str) -> None:
    sweep(spec, tmp_path / "sw")
    place = tmp_path / "sw" / name
    if name == "record":
        place = sorted((tmp_path / "sw" / "runs").iterdir())[0]
    place.rename(tmp_path / "old")
    if how == "link":  # to what is ours, even
        place.symlink_to(tmp_path / "old")
    elif how == "folder":
        place.mkdir()
        (place / "x").write_text("mine")
    elif how == "file":
        place.write_text("mine")
    else:
        pl.DataFrame({"mine": [1]}).write_parquet(place)
    before = state(tmp_path)
    if name == "runs" and how == "folder":
        assert sweep(spec, tmp_path / "sw").kept == 0
        assert (place / "x").read_text() == "mine"
    elif name == "record" and how in ("file", "table"):
        with pytest.warns(RingbcoWarning, match=f"{place.name}: is damaged or was changed by hand"):
            assert sweep(spec, tmp_path / "sw").kept == 5
    else:
        with pytest.raises(InputError, match=rf"{place.name}: is no (record|table|folder) of a") as caught:
            sweep(spec, tmp_path / "sw")
        assert "\n" not in str(caught.value)
        assert state(tmp_path) == before


def test_a_link_that_leads_nowhere_makes_no_file(spec: Path, tmp_path: Path, invoke: Invoke) -> None:
    sweep(spec, tmp_path / "sw")
    (tmp_path / "sw" / "runs.parquet").unlink()
    (tmp_path / "sw" / "runs.parquet").symlink_to("../precious.txt")
    assert "sw/runs.parquet: is no table of a sweep" in one_line(invoke("sweep", spec, "-o", "sw"))
    assert not (tmp_path / "precious.txt").exists()


def test_the_table_of_an_earlier_version_is_replaced(spec: Path, tmp_path: Path) -> None:
    table = sweep(spec, tmp_path / "sw").path
    whole = table.read_bytes()
    pl.read_parquet(table).head(2).write_parquet(table)  # without a signature
    sweep(spec, tmp_path / "sw")
    assert table.read_bytes() == whole
    table.write_bytes(whole[:-50])
    with pytest.warns(RingbcoWarning, match=r"runs\.parquet: is damaged"):
        sweep(spec, tmp_path / "sw")
    assert table.read_bytes() == whole


DAMAGE: dict[str, Any] = {
    "null": {"summary": None},
    "text": {"summary": {"mean_jct": "x"}},
    "warnings": {"summary": {}, "warnings": 5},
    "no summary": {},
    "list": [],
    "number": 5,
    "error": {"error": 5, "final": True},
    "deep": "[" * 100_000,
    "bytes": "\udcff",
    "empty": "",
    "half": '{"summ',
}


@pytest.mark.parametrize("damage", [*DAMAGE, "edited", "of another run"])
def test_a_record_that_no_sweep_wrote_is_named_and_made_again(
    spec: Path, tmp_path: Path, invoke: Invoke, damage: str
) -> None:
    whole = sweep(spec, tmp_path / "sw").frame
    first, second, *_ = sorted((tmp_path / "sw" / "runs").iterdir())
    genuine = json.loads(first.read_bytes())
    if damage == "edited":
        genuine["summary"]["mean_jct"] = 1.0
        first.write_text(json.dumps(genuine))
    elif damage == "of another run":
        first.write_bytes(second.read_bytes())
    else:
        content = DAMAGE[damage]
        text = content if isinstance(content, str) else json.dumps(content)
        first.write_bytes(text.encode("utf-8", "surrogateescape"))
    run = invoke("sweep", spec, "-o", "sw", "--json")
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("\n") == 1
    assert f"sw/runs/{first.name}: is damaged or was changed by hand; it is made again" in run.stderr
    assert json.loads(run.stdout)["kept"] == 5
    assert pl.read_parquet(tmp_path / "sw" / "runs.parquet").drop(TIMES).equals(whole.drop(TIMES))
    assert json.loads(first.read_bytes()).keys() == genuine.keys()
    assert invoke("sweep", spec, "-o", "sw").stderr == ""


def test_of_much_damage_the_first_is_named(spec: Path, tmp_path: Path) -> None:
    sweep(spec, tmp_path / "sw")
    for path in (tmp_path / "sw" / "runs").iterdir():
        path.write_text("{}")
    with pytest.warns(RingbcoWarning) as messages:
        assert sweep(spec, tmp_path / "sw").kept == 0
    assert len(messages) == 6
    assert str(messages[-1].message) == "and 1 more of the sweep's files, which are made again, too"
