"""Features of random cases: who goes before whom, and what takes GPUs away."""

import math
from random import Random

from cases.case import Case
from cases.draw import column, feature


@feature(0.3)
def priorities(rng: Random, case: Case) -> None:
    levels = rng.choice(((0, 1), (0, 1, 2), (-1, 0, 5)))
    drawn = [rng.choice(levels) for _ in case.jobs]
    # In half of the cases the later the higher, so that some have somebody to evict.
    column(case, "priority", sorted(drawn) if rng.random() < 0.5 else drawn)


@feature(0.4)
def preemptible(rng: Random, case: Case) -> None:
    column(case, "preemptible", [rng.random() < 0.7 for _ in case.jobs])


@feature(0.35)
def evict(rng: Random, case: Case) -> None:
    case.options["evict"] = True


@feature(0.3)
def quotas(rng: Random, case: Case) -> None:
    """Of users, or of vcs that need not be clusters."""
    kind = rng.choice(("user", "vc"))
    if kind not in case.jobs[0]:
        column(case, kind, [rng.choice(("u0", "u1", "u2")) for _ in case.jobs])
    owners = sorted({job[kind] for job in case.jobs if job[kind] is not None})
    case.files["quota"] = [
        {kind: owner, "gpus": rng.choice((0, 1, 2, case.room // 2, case.room)), "borrow": rng.random() < 0.7}
        for owner in owners
        if rng.random() < 0.8
    ]
    if not case.files["quota"]:
        del case.files["quota"]


@feature(0.35)
def accounts(rng: Random, case: Case) -> None:
    """A book of accounts or of arrays, beside that of users or vcs, or alone; or a second of one column."""
    kind = rng.choice(("account", "array"))
    names = ("a0", "a1", None) if kind == "account" else (7, 8, 9, 9, None)
    if kind not in case.jobs[0]:
        column(case, kind, [rng.choice(names) for _ in case.jobs])
    if "quota" in case.files and rng.random() < 0.2:
        kind = next(iter(case.files["quota"][0]))
    owners = sorted({job[kind] for job in case.jobs if job[kind] is not None})
    book = [
        {kind: owner, "gpus": rng.choice((1, 2, case.room // 2, case.room)), "borrow": rng.random() < 0.6}
        for owner in owners
        if rng.random() < 0.8
    ]
    if book:
        case.files["quota-2" if "quota" in case.files else "quota"] = book


@feature(0.3)
def services(rng: Random, case: Case) -> None:
    """One or two, that want nothing in the end in most cases."""
    rows = []
    for name in ("chat", "code")[: rng.randint(1, 2)]:
        gpus = rng.randint(1, min(3, max(server["gpus"] for server in case.servers)))
        times = {case.moment(rng) for _ in range(rng.randint(1, 3))}
        wanted = {time: rng.choice((0, 1, 2, 3)) for time in sorted(times)}
        if rng.random() < 0.9:
            wanted[max(times) + case.span(rng, 1.0, 6.0)] = 0
        rows += [
            {"service": name, "time": time, "replicas": count, "gpus_per_replica": gpus}
            for time, count in wanted.items()
        ]
    case.files["services"] = rows


def _makes_room(case: Case) -> bool:
    return bool(case.options.get("evict") or {"quota", "services", "requests"} & {*case.files})


@feature(0.35)
def victims(rng: Random, case: Case) -> None:
    if _makes_room(case):
        case.options["victims"] = "youngest"


@feature(0.35)
def evict_after(rng: Random, case: Case) -> None:
    """On the grid often until something else happens."""
    if _makes_room(case):
        case.options["evict_after"] = rng.choice((case.unit / 4.0, case.span(rng, 1.0, 4.0)))


@feature(0.35)
def evict_loses(rng: Random, case: Case) -> None:
    if _makes_room(case):
        case.options["evict_loses"] = True
        case.options.setdefault("checkpoint_interval", case.span(rng, 0.5, 4.0))


@feature(0.35)
def keep_unpreemptible(rng: Random, case: Case) -> None:
    if not all(job.get("preemptible", True) for job in case.jobs):
        case.options["keep_unpreemptible"] = True


@feature(0.4)
def outages(rng: Random, case: Case) -> None:
    rows = []
    for _ in range(rng.choice((1, 3, 6, 12))):
        down = case.moment(rng)
        # One in four is over within a slot.
        up = down + (case.unit / 16.0 if rng.random() < 0.25 else case.span(rng, 0.25, 6.0))
        cause = rng.choice(("gpu", "network", None))
        rows.append(
            {"server": rng.randrange(len(case.servers)), "down_at": down, "up_at": up, "cause": cause}
        )
    case.files["outages"] = rows


@feature(0.5)
def drains(rng: Random, case: Case) -> None:
    """Rows of outages that are drains; of some the instants are those of others, or of other servers."""
    rows = case.files.get("outages", [])
    for row in rows:
        row["kind"] = rng.choice(("drain", "drain", "down", None))
    for row in rows[1:]:
        if rng.random() < 0.4:
            other = rng.choice(rows)
            row["down_at"] = rng.choice((other["down_at"], other["up_at"]))
            row["up_at"] = rng.choice((other["up_at"], row["down_at"] + case.span(rng, 0.25, 6.0)))
            if row["up_at"] <= row["down_at"]:
                row["up_at"] = row["down_at"] + case.span(rng, 0.25, 6.0)
            if rng.random() < 0.7:
                row["server"] = other["server"]


@feature(0.25)
def maintenance(rng: Random, case: Case) -> None:
    """Now and then of all servers at once, as an outage begins or ends, or for good."""
    rows: list[dict[str, object]] = []
    failures = case.files.get("outages", [])
    for _ in range(rng.choice((1, 2, 4))):
        down = case.moment(rng)
        if failures and rng.random() < 0.3:
            down = rng.choice(failures)[rng.choice(("down_at", "up_at"))]
        up = down + (case.unit / 16.0 if rng.random() < 0.1 else case.span(rng, 0.25, 6.0))
        everywhere = rng.random() < 0.2
        for server in range(len(case.servers)) if everywhere else [rng.randrange(len(case.servers))]:
            rows.append(
                {"server": server, "down_at": down, "up_at": up, "cause": rng.choice(("disks", None))}
            )
    case.files["maintenance"] = rows


@feature(0.4)
def checkpoints(rng: Random, case: Case) -> None:
    def interval() -> float:
        return rng.choice(
            (0.0, math.inf, case.unit / 4.0, case.span(rng, 1.0, 4.0), case.span(rng, 1.0, 4.0))
        )

    case.options["checkpoint_interval"] = interval()
    if rng.random() < 0.5:
        column(case, "checkpoint_interval", [rng.choice((None, interval())) for _ in case.jobs])


@feature(0.3)
def saving(rng: Random, case: Case) -> None:
    """Checkpoints that take time: nobody makes one at every instant."""
    case.options["checkpoint_cost"] = rng.choice((case.unit / 2.0, case.span(rng, 0.5, 2.0)))
    case.options.setdefault("checkpoint_interval", case.span(rng, 1.0, 4.0))
    for line in (case.options, *case.jobs):
        if line.get("checkpoint_interval") == 0.0:
            line["checkpoint_interval"] = case.unit
