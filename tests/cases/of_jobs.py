"""Features of random cases: jobs, their times, and the GPUs that they run on."""

from random import Random

from cases.case import Case
from cases.draw import column, feature


@feature(0.1)
def late(rng: Random, case: Case) -> None:
    """All of it begins far from zero."""
    case.epoch = rng.choice((1e9, 1e12))
    for job in case.jobs:
        job["submit_time"] += case.epoch


@feature(0.12)
def shuffled(rng: Random, case: Case) -> None:
    """Rows that are not sorted by submission."""
    rng.shuffle(case.jobs)


@feature(0.15)
def tiny(rng: Random, case: Case) -> None:
    """Some jobs of next to no length."""
    for job in case.jobs:
        if rng.random() < 0.4:
            job["duration"] = rng.choice((1e-15, 1e-12, 1e-9, 1e-6))


@feature(0.35)
def ring(rng: Random, case: Case) -> None:
    """The ring-all-reduce model: iterations that contention stretches. On the grid few communicate."""
    case.options["model"] = "rar"
    for job in case.jobs:
        compute = (
            case.unit * rng.choice((0.125, 0.25, 0.5)) if case.grid else case.unit * rng.uniform(0.05, 0.6)
        )
        gradient = rng.choice((0.0, 0.0, 0.1, 0.3)) if case.grid else rng.uniform(0.0, 0.4)
        if job["duration"] < 1e-3 * case.unit:
            compute, gradient = job["duration"], 0.0
        job |= {
            "iterations": max(1, round(job["duration"] / compute)),
            "gradient_bytes": gradient * case.unit * case.network["inter_bandwidth"],
            "batch_size": 1,
            "fp_time": compute,
            "bp_time": 0.0,
        }


@feature(0.1)
def sharing(_: Random, case: Case) -> None:
    case.options["sharing"] = "off"


@feature(0.3)
def slot(rng: Random, case: Case) -> None:
    case.options |= {"clock": "slot", "slot": case.unit * rng.choice((0.5, 1.0, 1.0, 2.0, 0.7))}


@feature(0.3)
def users(rng: Random, case: Case) -> None:
    column(case, "user", [rng.choice(("u0", "u1", None)) for _ in case.jobs])


@feature(0.3)
def deadlines(rng: Random, case: Case) -> None:
    due = [case.span(rng, 0.0, 30.0) if rng.random() < 0.8 else None for _ in case.jobs]
    column(
        case,
        "deadline",
        [None if d is None else job["submit_time"] + d for d, job in zip(due, case.jobs, strict=True)],
    )


# GPUs of several types, speeds as measured.


@feature(0.22)
def types(rng: Random, case: Case) -> None:
    names = [f"t{number}" for number in range(rng.choice((2, 2, 3)))]
    case.servers += [{"gpus": rng.choice((1, 2, 4))} for _ in range(rng.randint(0, 2))]
    for server in case.servers:
        server["gpu_type"] = rng.choice(names)
    for name in [*names, "other"]:
        case.gpu_types[name] = {
            "speed": rng.choice((0.5, 1.0, 2.0, 4.0)) if case.grid else rng.uniform(0.3, 4.0),
            "price_per_hour": rng.choice((1.0, 2.0, 5.0)),
            "idle_watts": 50.0,
            "busy_watts": rng.choice((200.0, 300.0)),
        }
    case.options["type_order"] = rng.choice(("fastest", "cheapest", "listed"))


@feature(0.5)
def gpu_type(rng: Random, case: Case) -> None:
    """The types that a job may use."""
    names = sorted({server["gpu_type"] for server in case.servers if "gpu_type" in server})
    if names:
        lists = [rng.sample(names, rng.randint(1, len(names))) for _ in case.jobs]
        column(case, "gpu_type", [rng.choice(("|".join(own), "|".join(own), None)) for own in lists])


@feature(0.5)
def recorded_on(rng: Random, case: Case) -> None:
    if case.gpu_types:
        column(case, "recorded_on", [rng.choice((None, *case.gpu_types)) for _ in case.jobs])


@feature(0.4)
def models(rng: Random, case: Case) -> None:
    """Models that some types run faster, or slower, than others."""
    if case.gpu_types:
        column(case, "model", [rng.choice(("m0", "m1", None)) for _ in case.jobs])
        for facts in case.gpu_types.values():
            if rng.random() < 0.5:
                facts["models.m0"] = rng.choice((0.5, 1.0, 2.0)) if case.grid else rng.uniform(0.3, 4.0)


@feature(0.15)
def tables(rng: Random, case: Case) -> None:
    """Model table: rates on one server, on two and here and there on three, on each type."""
    case.options["model"] = "table"
    names = list(case.gpu_types)
    if not names:
        names = ["t0"]
        for server in case.servers:
            server["gpu_type"] = "t0"
        case.gpu_types["t0"] = {"speed": 1.0}
    rows = []
    for model in ("m0", "m1"):
        for name in names:
            rate = rng.choice((1.0, 2.0, 4.0)) / case.unit * (1.0 if case.grid else rng.uniform(0.5, 2.0))
            for servers in rng.choice(((1, 2), (1, 2), (1,), (1, 3))):
                top = 40
                one = {"model": model, "gpu_type": name, "servers": servers}
                rows.append({**one, "gpus": servers, "rate": rate * servers})
                rows.append({**one, "gpus": top, "rate": rate * top * rng.choice((0.5, 0.75))})
                for gpus in rng.sample(range(servers + 1, servers + 8), rng.choice((0, 0, 1, 2))):
                    rows.append({**one, "gpus": gpus, "rate": rate * gpus * rng.choice((0.5, 1.0, 1.5))})
    case.files["tables"] = rows
    for job in case.jobs:
        job["model"] = rng.choice(("m0", "m1"))
        job["iterations"] = rng.randint(1, 40)


@feature(0.12)
def vcs(rng: Random, case: Case) -> None:
    names = ["a", "b", *rng.choice(((), ("c",)))][: len(case.servers)]
    for number, server in enumerate(case.servers):
        server["vc"] = names[number] if number < len(names) else rng.choice(names)
    column(case, "vc", [rng.choice(names) for _ in case.jobs])


@feature(0.3)
def after(rng: Random, case: Case) -> None:
    """Jobs after others: one by one, several after one; often submitted as that one ends, or told no time."""
    order = list(range(len(case.jobs)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    likely, here = rng.choice((0.3, 0.6, 0.9)), dict[object, list[int]]()
    named: list[object] = [None] * len(order)
    think: list[object] = [None] * len(order)
    for row in order:
        job = case.jobs[row]
        own = here.setdefault(job.get("vc"), [])
        own.append(row)
        drawn = case.span(rng, 0.0, 3.0)
        others = (own[-2:][0], own[0], rng.choice(own))
        before, wait, is_after = (
            rng.choice(others),
            rng.choice((None, None, 0.0, drawn)),
            rng.random() < likely,
        )
        if before == row or not is_after:
            continue
        first = case.jobs[before]
        named[row], think[row] = first["job_id"], wait
        submitted = first["submit_time"]
        job["submit_time"] = rng.choice(
            (job["submit_time"], job["submit_time"], submitted, submitted + first["duration"])
        )
    column(case, "after", named)
    column(case, "think_time", think)


@feature(0.2)
def shares(rng: Random, case: Case) -> None:
    likely = rng.choice((0.5, 1.0))
    for job in case.jobs:
        small = job["num_gpus"] == 1 and rng.random() < likely
        job["gpu_share"] = rng.choice((0.1, 0.25, 0.5, 0.5, 0.6, 0.75)) if small else None


@feature(0.3)
def pods(rng: Random, case: Case) -> None:
    """Pods of several GPUs, of jobs that ask for neither a share nor a range of them."""
    shares, single = "gpu_share" in case.jobs[0], rng.random() < 0.2
    for job in case.jobs:
        sizes = [gpus for gpus in range(2, job["num_gpus"] + 1) if job["num_gpus"] % gpus == 0]
        whole = sizes and not (shares and job["gpu_share"]) and rng.random() < 0.75
        job["gpus_per_pod"] = rng.choice(sizes) if whole and not single else rng.choice((1, None))


@feature(0.5)
def interference(rng: Random, case: Case) -> None:
    if any(job.get("gpu_share") for job in case.jobs):
        case.options["interference"] = rng.choice((0.25, 0.5, 1.0))


@feature(0.35)
def partners(rng: Random, case: Case) -> None:
    """What was measured of two jobs on one GPU, now and then that one makes no progress beside the other."""
    rows = case.files.get("tables", [])
    if not rows:
        return
    if "gpu_share" not in case.jobs[0]:
        shares(rng, case)
    alone = {(row["model"], row["gpu_type"]): row["rate"] for row in rows if row["gpus"] == 1}
    for row in rows:
        row |= {"partner": None, "partner_rate": None}
    for (model, name), rate in alone.items():
        for partner in ("m0", "m1"):
            if rng.random() < 0.6:
                mine = rate * rng.choice((0.0, 0.5, 0.5, 0.75, 0.75, 1.0))
                theirs = alone[partner, name] * rng.choice((0.5, 0.75, 1.0))
                one = {"model": model, "gpu_type": name, "servers": 1, "gpus": 1, "rate": mine}
                rows.append({**one, "partner": partner, "partner_rate": theirs})
