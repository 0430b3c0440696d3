"""Acme: run times recomputed, offsets turned into UTC."""

from __future__ import annotations

from pathlib import Path

import pytest

from raw import acme
from raw.agreement import converted
from ringbco.errors import InputError
from ringbco.sources import convert
from ringbco.sources.source import Options

A100 = "A100-SXM-80GB"
SEREN = "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
KALOS = "dlctk,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"


@pytest.mark.parametrize("cluster", ["seren", "kalos"])
@pytest.mark.parametrize("seed", range(3))
def test_every_planted_defect_is_accounted_for(cluster: str, seed: int, tmp_path: Path) -> None:
    result = converted("acme", acme.generate(cluster, seed), tmp_path, want_cluster=True)
    assert result.epoch.endswith("Z")
    assert result.cluster is not None
    assert result.cluster.num_gpus == {"seren": 2288, "kalos": 2416}[cluster]
    assert set(result.cluster.server_gpus.tolist()) == {8}
    assert result.cluster.types == (A100,)


def test_the_published_examples_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "trace_seren.csv"
    path.write_text(",".join(acme.SEREN) + f"\n{SEREN}2023-03-01 00:20:51+08:00,117,32,936.0\n")
    result = convert("acme", [path], Options(strict=True))
    assert result.epoch == "2023-02-28T16:18:22Z"
    job = ("5778432", 0.0, 8, 117.0, "u5907", "FAILED", A100, "Other", 32.0, 149.0)
    assert result.table.frame.row(0) == job

    # In Kalos the recorded 18 s are end - submit: the job ran 8 s.
    path = tmp_path / "trace_kalos.csv"
    path.write_text(
        ",".join(acme.KALOS)
        + f"\n{KALOS}2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
    )
    result = convert("acme", [path], Options(strict=True))
    assert result.epoch == "2023-05-17T11:00:58Z"
    job = ("dlctk", 0.0, 64, 8.0, "uf794", "FAILED", A100, "Other", 10.0, 18.0)
    assert result.table.frame.row(0) == job
    assert result.account.noted == {acme.RECORDED: 1}


def test_strict_names_a_time_without_offset(tmp_path: Path) -> None:
    path = tmp_path / "trace_seren.csv"
    path.write_text(",".join(acme.SEREN) + f"\n{SEREN}2023-03-01 00:20:51,117,32,936.0\n")
    with pytest.raises(InputError) as caught:
        convert("acme", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 1 (line 2), column end_time: '2023-03-01 00:20:51': expected a time such as "
        "2023-03-01 00:18:22+08:00; without --strict: dropped, end_time missing or unreadable"
    )
