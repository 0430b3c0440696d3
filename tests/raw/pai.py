"""PAI: headerless tables of jobs, tasks, instances and machines, and their .header files."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from raw import Raw, csv_text, in_order, plan

JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
INSTANCES = (
    *("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status"),
    *("start_time", "end_time", "machine"),
)
MACHINES = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")

UNTIMED = "tasks without a start or an end: its run time is that of the others"
REPEATED = "task listed twice: counted once"
PLAN = "a task's inst_num or plan_gpu missing or impossible"
DROPPED = {
    "Running": "status is not one of a job that ended",
    "Waiting": "status is not one of a job that ended",
    "cpu": "no GPUs asked for (a CPU job)",
    "no name": "no job_name",
    "no tasks": "no task in pai_task_table",
    "bad plan": PLAN,
    "no instances": PLAN,
    "start 0": "start_time missing or unreadable",
    "no start": "start_time missing or unreadable",
    "tasks start 0": "first_task_start missing or unreadable",
    "no ends": "last_task_end missing or unreadable",
    "soon": "starts before it is submitted (first_task_start < start_time)",
    "reversed": "ends before it starts (last_task_end < first_task_start)",
    "zero": "ran for no time (last_task_end = first_task_start)",
    "twice": "job_name occurred before",
}
CHANGED = {"untimed": UNTIMED, "repeated": REPEATED}


def generate(seed: int = 0, good: int = 60, each: int = 2, *, header: bool = False) -> Raw:
    """Tables of `good` sound jobs and `each` of every defect; one task belongs to no job."""
    rng = random.Random(seed)
    jobs: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    instances: list[dict[str, Any]] = []
    out, dropped, changed = [], Counter(), Counter()
    for number, kind in enumerate(["", *plan(rng, good - 1, [*DROPPED, *CHANGED], each)]):
        name = f"job{number:05d}"
        submit = 1_000_000 + rng.randrange(5_000_000)
        start = submit + rng.randrange(1, 900)
        end = start + rng.randrange(1, 90_000)
        workers, percent = rng.choice([(1, 50.0), (1, 100.0), (4, 100.0), (3, 25.0), (2, 800.0), (1, 10.0)])
        job = {
            "job_name": name,
            "inst_id": f"inst{number}",
            "user": rng.choice(["58540f191766", "a"]),
            "status": rng.choice(["Terminated", "Failed"]),
            "start_time": float(submit),
            "end_time": float(end),
        }
        server = {
            "job_name": name,
            "task_name": "ps",
            "inst_num": 2.0,
            "status": "Terminated",
            "start_time": float(start),
            "end_time": float(end - 1 if end - 1 > start else end),
            "plan_cpu": 600.0,
            "plan_mem": 29.3,
            "plan_gpu": rng.choice([None, 0.0]),
            "gpu_type": rng.choice(["", "MISC"]),
        }
        worker = {
            **server,
            "task_name": "worker",
            "inst_num": float(workers),
            "start_time": float(start + 1 if start + 1 < end else start),
            "end_time": float(end),
            "plan_gpu": percent,
            "gpu_type": rng.choice(["T4", "P100"]),
        }
        of_job = [server, worker]
        job |= {
            "Running": {"status": "Running", "end_time": None},
            "Waiting": {"status": "Waiting"},
            "no name": {"job_name": None},
            "start 0": {"start_time": 0.0},
            "no start": {"start_time": None},
            "soon": {"start_time": float(start + 1)},
            "twice": jobs[0] if jobs else {},
        }.get(kind, {})
        if kind == "cpu":
            worker["plan_gpu"] = 0.0
        elif kind == "bad plan":
            worker["plan_gpu"] = "half"
        elif kind == "no instances":
            worker["inst_num"] = None
        elif kind == "tasks start 0":
            server["start_time"] = worker["start_time"] = 0.0
        elif kind == "no ends":
            server["end_time"] = worker["end_time"] = None
        elif kind == "reversed":
            server["end_time"] = worker["end_time"] = float(start - 5)
        elif kind == "zero":
            server["start_time"] = worker["start_time"] = float(start)
            server["end_time"] = worker["end_time"] = float(start)
        elif kind == "untimed":
            server["end_time"] = None
        elif kind == "repeated":
            of_job.append(dict(worker))
        elif kind in ("no tasks", "twice"):
            of_job = []
        jobs.append(job)
        tasks += of_job
        machines = rng.randrange(1, 4)
        for at in range(machines + 1):
            instances.append(
                {
                    **dict.fromkeys(INSTANCES),
                    "job_name": name,
                    "task_name": "worker",
                    "inst_name": f"i{at}",
                    "worker_name": f"w{at}",
                    "inst_id": f"inst{number}",
                    "status": "Terminated",
                    "start_time": float(start),
                    "end_time": float(end),
                    "machine": f"m{at % machines}",
                }
            )
        if kind in DROPPED:
            dropped[DROPPED[kind]] += 1
            continue
        if kind in CHANGED:
            changed[CHANGED[kind]] += 1
        gpus = workers * percent / 100
        out.append(
            {
                "job_id": name,
                "submit_time": submit,
                "num_gpus": -int(-gpus // 1),
                "duration": float(end - start),
                "user": job["user"],
                "status": job["status"],
                "gpu_type": worker["gpu_type"],
                "gpu_share": gpus if gpus < 1 else None,
                "plan_gpus": gpus,
                "recorded_start": start,
                "recorded_end": end,
                "num_machines": machines,
            }
        )
    tasks.append({**tasks[0], "job_name": "nobody"})
    rng.shuffle(tasks)
    nodes = [
        {"machine": f"m{i}", "gpu_type": kind, "cap_cpu": 96, "cap_mem": 512, "cap_gpu": gpus}
        for i, (kind, gpus) in enumerate([("T4", 2), ("T4", 2), ("CPU", 0), ("V100", 8)])
    ]
    tables = {
        "job": (JOBS, jobs),
        "task": (TASKS, tasks),
        "instance": (INSTANCES, instances),
    }
    files = {f"pai_{k}_table.csv": csv_text(c, r, header=header) for k, (c, r) in tables.items()}
    files["pai_machine_spec.csv"] = csv_text(MACHINES, nodes, header=header)
    if not header:
        files |= {f"pai_{k}_table.header": ",".join(c) + "\n" for k, (c, _) in tables.items()}
    return Raw(files, len(jobs), in_order(out, 0), dropped, changed)
