"""`convert --pods`: the GPUs of each pod, from each source that knows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Invoke
from raw import acme, helios, spot_gpu
from ringbco.errors import UsageError
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options

PODS = Options(pods=True)


def sizes(result: Conversion) -> dict[str, int | None]:
    frame = result.table.frame
    return dict(frame.select("job_id", "gpus_per_pod").rows())


def unknown(result: Conversion) -> list[int]:
    return [count for reason, count in result.account.noted.items() if reason.endswith("no gpus_per_pod")]


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_spot_gpu_has_those_of_a_worker(tmp_path: Path) -> None:
    rows = (
        "a,1,A10,8,2,3,0,9,HP",
        "b,1,A10,8,0.5,4,0,9,HP",
        "c,1,A10,8,1.5,2,0,9,HP",
        "d,1,A10,8,8,1,0,9,HP",
    )
    result = convert("spot-gpu", [write(tmp_path, "j.csv", ",".join(spot_gpu.COLUMNS), *rows)], PODS)
    assert sizes(result) == {"a": 2, "b": None, "c": None, "d": 8}
    assert result.table.frame["num_gpus"].to_list() == [6, 2, 3, 8]
    assert unknown(result) == [2]


def test_pai_has_those_of_an_instance_where_all_are_alike(tmp_path: Path) -> None:
    jobs = write(tmp_path, "pai_job_table.csv", *(f"{job},i,u,Terminated,10.0,90.0" for job in "abcd"))
    task = "Terminated,20.0,80.0,600.0,29.3"
    tasks = write(
        tmp_path,
        "pai_task_table.csv",
        f"a,ps,1.0,{task},,",  # no GPU: it does not count
        f"a,worker,3.0,{task},200.0,T4",
        f"a,chief,1.0,{task},200.0,T4",
        f"b,worker,2.0,{task},200.0,T4",
        f"b,chief,1.0,{task},100.0,T4",
        f"c,worker,4.0,{task},50.0,T4",
        f"d,worker,2.0,{task},100.0,T4",
    )
    result = convert("pai", [jobs, tasks], PODS)
    assert sizes(result) == {"a": 2, "b": None, "c": None, "d": 1}
    assert unknown(result) == [2]


def test_openb_has_those_of_the_pod(tmp_path: Path) -> None:
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time"
    )
    rows = ("a,1,1,4,1000,,LS,Succeeded,0,90,10", "b,1,1,1,300,,LS,Succeeded,0,90,10")
    result = convert("openb", [write(tmp_path, "openb_pod_list.csv", head, *rows)], PODS)
    assert sizes(result) == {"a": 4, "b": 1}
    assert unknown(result) == []


def test_helios_has_those_of_a_node(tmp_path: Path) -> None:
    times = "2020-09-01 00:00:00,2020-09-01 00:01:00,2020-09-01 00:02:00,60,60"
    rows = [
        f"{job},u,vcA,{gpus},8,{nodes},COMPLETED,{times}"
        for job, gpus, nodes in (("a", 16, 2), ("b", 9, 2), ("c", 8, ""), ("d", 8, 0), ("e", 1, 1))
    ]
    result = convert("helios", [write(tmp_path, "cluster_log.csv", ",".join(helios.COLUMNS), *rows)], PODS)
    assert sizes(result) == {"a": 8, "b": None, "c": None, "d": None, "e": 1}
    assert unknown(result) == [3]


def test_acme_has_those_of_a_node(tmp_path: Path) -> None:
    times = "2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0"
    rows = [
        f"{job},u,{nodes},{gpus},8,Other,FAILED,{times}" for job, nodes, gpus in (("a", 2, 16), ("b", 3, 8))
    ]
    result = convert("acme", [write(tmp_path, "trace_seren.csv", ",".join(acme.SEREN), *rows)], PODS)
    assert sizes(result) == {"a": 8, "b": None}
    assert unknown(result) == [1]


def test_slurm_always_has_those_of_a_node(tmp_path: Path) -> None:
    head = "JobID|Submit|Start|End|State|NNodes|AllocTRES"
    at = "2026-05-01T08:00:00|2026-05-01T08:01:00|2026-05-01T09:00:00|COMPLETED"
    rows = [
        f"{job}|{at}|{nodes}|cpu=8,gres/gpu={gpus}" for job, nodes, gpus in ((1, 2, 8), (2, 2, 3), (3, 1, 4))
    ]
    result = convert("slurm", [write(tmp_path, "sacct.psv", head, *rows)])
    assert sizes(result) == {"1": 4, "2": None, "3": 4}
    assert any("1 job without gpus_per_pod, first 2" in note for note in result.notes), result.notes


def test_without_pods_there_is_no_column(tmp_path: Path) -> None:
    path = write(tmp_path, "j.csv", ",".join(spot_gpu.COLUMNS), "a,1,A10,8,2,3,0,9,HP")
    assert "gpus_per_pod" not in convert("spot-gpu", [path]).table.frame.columns
    with pytest.raises(UsageError, match="--pods is not an option of csv"):
        convert("csv", [path], PODS)


def test_the_command_says_it_and_the_footer_keeps_it(tmp_path: Path, invoke: Invoke) -> None:
    path = write(tmp_path, "j.csv", ",".join(spot_gpu.COLUMNS), "a,1,A10,8,0.5,3,0,9,HP")
    out = tmp_path / "jobs.parquet"
    told = invoke("convert", "spot-gpu", str(path), "--pods", "-o", str(out), "--json").stdout
    assert "gpu_request is not a whole number of GPUs: no gpus_per_pod" in json.dumps(json.loads(told))
    assert (
        convert("spot-gpu", [path], PODS).table.metadata["ringbco.options"]
        == '{"inputs": "j.csv", "pods": "yes"}'
    )


def test_elastic_jobs_have_no_pods(tmp_path: Path) -> None:
    rows = [f"{job},1,A10,8,2,2,0,9,HP" for job in "abcdef"] + [
        f"{job},1,A10,8,1,4,0,9,HP" for job in "uvwxyz"
    ]
    path = write(tmp_path, "j.csv", ",".join(spot_gpu.COLUMNS), *rows)
    from ringbco.trace.elastic import parse

    frame = convert(
        "spot-gpu", [path], Options(pods=True, elastic=parse("0.5:2", share=1.0, seed=0))
    ).table.frame
    elastic = frame["min_gpus"].is_not_null().to_list()
    assert elastic == [size == 1 for size in frame["gpus_per_pod"].to_list()]
