"""PAI: three tables joined, with or without headers, plain or in archives."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from raw import Raw, pai
from raw.agreement import agrees, converted
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.source import Options


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, header: bool, tmp_path: Path) -> None:
    result = converted("pai", pai.generate(seed, header=header), tmp_path)
    # One was planted, four are those of the jobs without a name.
    assert result.notes == (f"5 tasks belong to no job of {tmp_path}/pai_job_table.csv: left out",)


def tables(folder: Path, jobs: str, tasks: str) -> list[Path]:
    paths = [folder / "pai_job_table.csv", folder / "pai_task_table.csv"]
    for path, text in zip(paths, (jobs, tasks), strict=True):
        path.write_text(text)
    return paths


def test_a_job_of_three_tasks_by_hand(tmp_path: Path) -> None:
    paths = tables(
        tmp_path,
        "j1,i1,u1,Terminated,1000.0,1900.0\nj2,i2,u1,Failed,1000.0,1400.0\n",
        "j1,ps,1.0,Terminated,1100.0,1880.0,600.0,29.3,,\n"
        "j1,worker,3.0,Terminated,1120.0,1850.0,400.0,29.3,50.0,T4\n"
        "j1,evaluator,1.0,Failed,1500.0,1890.0,400.0,29.3,25.0,P100\n"
        "j2,tensorflow,3.0,Failed,1010.0,1390.0,400.0,29.3,33.333333333333336,MISC\n",
    )
    frame = convert("pai", paths, Options(strict=True)).table.frame
    assert frame.drop("plan_gpus").rows() == [
        ("j1", 1000.0, 2, 790.0, "u1", "Terminated", "P100|T4", None, 1100.0, 1890.0),
        ("j2", 1000.0, 1, 380.0, "u1", "Failed", "MISC", None, 1010.0, 1390.0),
    ]
    assert frame["plan_gpus"].to_list() == pytest.approx([1.75, 1.0])


def test_archives_headers_and_the_table_of_instances(tmp_path: Path) -> None:
    raw = pai.generate()
    packed = []
    for path in raw.write(tmp_path):
        target = path.with_name(path.stem + ".tar.gz") if path.suffix == ".csv" else path
        if target is not path:
            with tarfile.open(target, "w:gz") as archive:
                archive.add(path, path.name)
        packed.append(target)
    result = convert("pai", packed)
    agrees(result, raw)
    assert result.table.frame["num_machines"].min() == 1

    without = [path for path in packed if "instance" not in path.name and path.suffix != ".header"]
    jobs = [{k: v for k, v in job.items() if k != "num_machines"} for job in raw.jobs]
    agrees(convert("pai", without), Raw({}, raw.rows_read, jobs, raw.dropped, raw.changed))


def test_a_header_file_decides_the_order_of_columns(tmp_path: Path) -> None:
    paths = tables(
        tmp_path,
        "j1,i1,u1,Terminated,1000.0,1900.0\n",
        "j1,worker,3.0,Terminated,1120.0,1850.0,400.0,29.3,T4,50.0\n",
    )
    header = tmp_path / "pai_task_table.header"
    header.write_text(",".join((*pai.TASKS[:-2], "gpu_type", "plan_gpu")) + "\n")
    frame = convert("pai", [*paths, header]).table.frame
    assert frame.select("num_gpus", "gpu_type").row(0) == (2, "T4")


def test_strict_names_what_is_wrong_with_a_jobs_tasks(tmp_path: Path) -> None:
    paths = tables(
        tmp_path,
        "j1,i1,u1,Terminated,1000.0,1900.0\nj2,i2,u1,Terminated,1000.0,1900.0\n",
        "j1,w,1.0,Terminated,1100.0,1880.0,600.0,29.3,50.0,T4\n"
        "j2,w,1.0,Terminated,1100.0,,600.0,29.3,50.0,T4\n",
    )
    with pytest.raises(InputError) as caught:
        convert("pai", paths, Options(strict=True))
    assert str(caught.value) == (
        f"{paths[0]}: row 2 (line 2), column last_task_end: null: expected a task with that time; "
        "without --strict: dropped, last_task_end missing or unreadable"
    )


def test_the_cluster_needs_the_machines(tmp_path: Path) -> None:
    paths = pai.generate().write(tmp_path)
    result = convert("pai", paths, Options(want_cluster=True))
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [2, 2, 8]  # the CPU machine has no GPUs
    assert result.cluster.server_gpu_type == ("T4", "T4", "V100")
    without = [path for path in paths if "machine" not in path.name]
    with pytest.raises(UsageError, match=r"give pai_machine_spec\.csv beside the other tables"):
        convert("pai", without, Options(want_cluster=True))
    with pytest.raises(UsageError, match=r"give PAI's table of tasks \(pai_task_table\) as well"):
        convert("pai", paths[:1])
