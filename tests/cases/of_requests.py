"""Requests of random cases: services that answer them, in the place of those that want counts of replicas."""

from __future__ import annotations

from random import Random
from typing import Any

from cases.case import Case, Row
from cases.draw import feature
from reference.answering import Asked
from reference.replicas import Batch, Request, Tokens
from reference.scaling import Fixed, Loads, Target
from reference.serving import Service

MOST_TICKS = 100
"""Before the first job."""
_KEYS = ("step", "prefill", "decode", "max_running", "kv_tokens", "context", "max_step_tokens")
_TARGET = {"target": "target", "min": "least", "max": "most", "every": "every"}


@feature(0.3)
def requests(rng: Random, case: Case) -> None:
    """Of one or two services; in some cases nothing but the jobs outlasts them."""
    tables, rows = {}, list[Row]()
    for name in ("chat", "code")[: rng.choice((1, 1, 2))]:
        tables[name] = table = _service(rng, case)
        for _ in range(rng.choice((0, 1, 5, 15, 30))):
            arrival = case.moment(rng)
            if case.grid is not None and rng.random() < 0.3:
                arrival += case.grid / 4.0
            row = {"service": name, "arrival": max(0.0, arrival), **_tokens(rng, table)}
            rows.append(row)
    if not rows:
        rows = [{"service": name, "arrival": case.moment(rng), **_tokens(rng, table)}]
    rng.shuffle(rows)
    case.files.pop("services", None)
    case.files["requests"] = rows
    case.options |= {"services": tables, "request_rows": True}


def _tokens(rng: Random, table: Row) -> Row:
    prompt = rng.randint(0, 20)
    longest = rng.choice((1, 4, 12, 15)) if table["kind"] == "tokens" else 1
    cached = rng.choice((0, 0, rng.randint(0, prompt), prompt))
    return {"input_tokens": prompt, "output_tokens": rng.randint(1, longest), "cached_tokens": cached}


def _service(rng: Random, case: Case) -> Row:
    table: Row = {"gpus": rng.randint(1, min(3, max(server["gpus"] for server in case.servers)))}
    table["startup"] = rng.choice((0.0, 0.0, case.span(rng, 0.25, 3.0)))
    table["drain"] = rng.choice((0.0, case.span(rng, 0.25, 2.0), case.span(rng, 0.25, 8.0), 60.0))
    if rng.random() < 0.65:
        table |= {
            "kind": "tokens",
            "step": _part(rng, case, 0.5),
            "prefill": rng.choice((0.0, _part(rng, case, 1 / 16))),
            "decode": rng.choice((0.0, _part(rng, case, 1 / 4))),
            "context": rng.choice((0.0, _part(rng, case, 1 / 256))),
            "max_running": rng.choice((1, 2, 3, 8)),
            "kv_tokens": rng.choice((40, 60, 100, 1000)),
        }
        if rng.random() < 0.5:
            table["max_step_tokens"] = rng.choice((1, 2, 3, 7, 16))
    else:
        sizes = sorted(rng.sample(range(1, 9), rng.randint(1, 3)))
        times = sorted(_part(rng, case, 2.0) for _ in sizes)
        table |= {"kind": "batch", "seconds": [[*pair] for pair in zip(sizes, times, strict=True)]}
        table["max_wait"] = rng.choice((0.0, case.span(rng, 0.25, 2.0)))
    kind = rng.random()
    if kind < 0.15:
        return table | {"scale": "fixed", "replicas": rng.randint(1, 2)}
    if kind < 0.4:
        times = sorted({case.moment(rng) for _ in range(rng.randint(1, 4))})
        counts = [[time, rng.randint(0, 3)] for time in times]
        counts[-1][1] = max(1, counts[-1][1])
        return table | {"scale": "file", "counts": counts}
    least = rng.choice((0, 0, 1))
    return table | {
        "scale": "target",
        "min": least,
        "max": max(1, least) + rng.randint(0, 3),
        "target": rng.choice((0.5, 1.0, 2.0, 3.0, 4.7)),
        "every": max(case.span(rng, 0.25, 6.0), case.unit / 4.0, case.epoch / MOST_TICKS),
        "tolerance": rng.choice((0.0, 0.1, 0.5)),
        "down_after": rng.choice((0.0, case.span(rng, 0.25, 3.0), case.span(rng, 0.25, 12.0))),
    }


def _part(rng: Random, case: Case, part: float) -> float:
    """A part of a short job's length, of which there are few where times are on a grid."""
    whole = part * case.unit
    return whole * rng.choice((0.25, 0.5, 1.0)) if case.grid is not None else max(1e-3, whole * rng.random())


# As the reference model has them.


def asked_of(case: Case, names: list[str]) -> Asked | None:
    """The requests of a case; None without any. names: of GPU types, the cluster's first."""
    if "requests" not in case.files:
        return None
    tables: dict[str, Row] = case.options["services"]
    services = [*tables]
    rows = [
        Request(
            services.index(row["service"]),
            row["arrival"],
            row["input_tokens"],
            row["output_tokens"],
            row["cached_tokens"],
        )
        for row in case.files["requests"]
    ]
    speeds = []
    for server in case.servers:
        typed = "gpu_type" in server
        own = case.gpu_types[server["gpu_type"]]["speed"] if typed else 1.0
        speeds.append(own / case.gpu_types[names[0]]["speed"] if typed else 1.0)
    return Asked(services, [t["gpus"] for t in tables.values()], [*map(_read, tables.values())], rows, speeds)


def _read(table: Row) -> Service:
    kind: Batch | Tokens
    if table["kind"] == "batch":
        kind = Batch([(size, seconds) for size, seconds in table["seconds"]], table["max_wait"])
    else:
        kind = Tokens(**{key: table[key] for key in _KEYS if key in table})
    return Service(kind, table["startup"], table["drain"], _scale(table))


def _scale(table: Row) -> Fixed | Loads | Target:
    if table["scale"] == "fixed":
        return Fixed(table["replicas"])
    if table["scale"] == "file":
        return Loads([(time, replicas) for time, replicas in table["counts"]])
    told: dict[str, Any] = {mine: table[theirs] for theirs, mine in _TARGET.items()}
    return Target(**told, tolerance=table["tolerance"], down_after=table["down_after"])
