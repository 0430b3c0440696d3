"""Random small replays on GPU types that differ, as a user writes them: a cluster file and a job table.

What they mean is written down twice, here and by the package: for the oracle every speed is a plain number
that follows from what was drawn, by the words of docs/heterogeneous.md. Of the package only the figures of
the catalogue are read.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from oracle import Options
from oracle_types import Choices, Types
from ringbco.cluster.gpu_types import CATALOGUE
from strategies import Case, build_case, network_toml

KNOWN = {name: CATALOGUE[name.lower()].speed for name in ("V100", "T4", "K80", "A100")}
"""Speeds of the catalogue that cases may rely on."""
DECLARED = ("fast-1", "Slow 2")
MODELS = ("resnet", "bert", None)


@dataclass(frozen=True)
class TypedCase:
    """A case, its cluster file and its job table, and what the oracle is to know of them."""

    case: Case
    types: Types
    names: tuple[str, ...]
    toml: str
    frame: pl.DataFrame

    @property
    def servers_named(self) -> list[str]:
        return [self.names[t] for t in self.types.of]


def build_typed(rnd: random.Random, base: Options, *, vcs: bool = False) -> TypedCase:
    """Two to four types on interleaved servers, jobs with lists, records and models of all sorts."""
    case = build_case(rnd, base, vcs=vcs)
    while case.jobs[0].submit > 2.0**50:  # times too coarse for short stays
        case = build_case(rnd, base, vcs=vcs)
    case = replace(case, options=replace(case.options, oversize="drop"))
    # More servers than the case has, so that every type may have several of different sizes.
    more = rnd.randint(1, 4)
    servers = (*case.servers, *(rnd.randint(1, 8) for _ in range(more)))
    server_vc = case.server_vc
    if server_vc is not None:
        server_vc = (*server_vc, *(rnd.randrange(max(server_vc) + 1) for _ in range(more)))
    case = replace(case, servers=servers, server_vc=server_vc)

    facts, tables = _facts(rnd)
    drawn = rnd.sample([*KNOWN, *DECLARED], rnd.randint(2, 4))
    labels = [rnd.choice(drawn) for _ in servers]
    labels[: len(drawn)] = drawn[: len(labels)]
    rnd.shuffle(labels)
    names = tuple(dict.fromkeys(labels))
    recorded = rnd.choice((None, None, rnd.choice([*KNOWN, *DECLARED])))
    order = rnd.choice(("fastest", "cheapest", "listed"))

    rows, choices = [], []
    for _ in case.jobs:
        row, choice = _job(rnd, names, facts, recorded)
        rows.append(row)
        choices.append(choice)
    types = Types(
        tuple(names.index(label) for label in labels),
        tuple(choices),
        tuple(facts[name]["price"] for name in names),
        order,
    )
    toml = _toml(rnd, case, labels, tables, recorded)
    return TypedCase(case, types, names, toml, _frame(case, rows))


def _facts(rnd: random.Random) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Speed, price and speeds of models by type, and the tables of the cluster file that say so."""
    facts: dict[str, dict[str, Any]] = {}
    tables = []
    for name in (*KNOWN, *DECLARED):
        speed, lines = KNOWN.get(name, 1.0), []
        if rnd.random() < 0.5:
            speed = rnd.choice((0.5, 1.0, 2.0, 4.0, rnd.uniform(0.2, 5.0)))
            lines.append(f"speed = {speed!r}")
        price = rnd.choice((1.0, 2.0, rnd.uniform(0.1, 9.0)))
        lines.append(f"price_per_hour = {price!r}")
        models = {}
        for model in MODELS:
            if model is not None and rnd.random() < 0.3:
                models[model] = rnd.choice((0.5, 1.0, 3.0, rnd.uniform(0.2, 5.0)))
                lines.append(f"models.{model} = {models[model]!r}")
        facts[name] = {"speed": speed, "price": price, "models": models}
        tables.append("\n".join([f'[gpu_types."{_any_case(rnd, name)}"]', *lines]))
    return facts, tables


def _any_case(rnd: random.Random, name: str) -> str:
    return rnd.choice((name, name, name.upper(), name.lower()))


def _job(
    rnd: random.Random, names: tuple[str, ...], facts: dict[str, dict[str, Any]], recorded: str | None
) -> tuple[dict[str, str | None], Choices]:
    """What a row of the job table says, and what it means."""
    model = rnd.choice(MODELS)
    listed = rnd.sample([*KNOWN, *DECLARED], rnd.randint(1, 6)) if rnd.random() < 0.7 else []
    told = [_any_case(rnd, name) for name in listed]
    if told and rnd.random() < 0.2:
        told.append("unheard of")
        told.append(rnd.choice(told))  # said twice, it counts where it stands first
    # An empty text and a text of nothing but separators say as much as null: any type.
    gpu_type = rnd.choice(("|", " | ")).join(told) if told else rnd.choice((None, ""))
    of_cluster = [name for name in listed if name in names]
    on = rnd.choice((None, None, rnd.choice([*KNOWN, *DECLARED])))
    true_on = on or recorded or (of_cluster or names)[0]
    allowed = of_cluster if told else list(names)

    def speed(name: str) -> float:
        fact = facts[name]
        return float(fact["models"].get(model, fact["speed"]))

    row = {"gpu_type": gpu_type, "recorded_on": on and _any_case(rnd, on), "model": model}
    at = [names.index(name) for name in allowed]
    return row, Choices(tuple(at), {t: speed(names[t]) for t in at}, speed(true_on))


def _toml(rnd: random.Random, case: Case, labels: list[str], tables: list[str], recorded: str | None) -> str:
    lines = network_toml(case.net)
    if recorded is not None:
        lines += ["[recorded]", f'gpu_type = "{recorded}"']
    lines += tables
    seen: set[str] = set()
    for server, (size, label) in enumerate(zip(case.servers, labels, strict=True)):
        # The first spelling is the one that results show; later ones may differ.
        spelt = label if label not in seen else _any_case(rnd, label)
        seen.add(label)
        lines += ["[[servers]]", f"gpus = {size}", f'gpu_type = "{spelt}"']
        if case.server_vc is not None:
            lines.append(f'vc = "vc{case.server_vc[server]}"')
    return "\n".join(lines) + "\n"


def _frame(case: Case, rows: list[dict[str, str | None]]) -> pl.DataFrame:
    jobs = case.jobs
    words = {
        name: pl.Series([row[name] for row in rows], dtype=pl.String)
        for name in ("gpu_type", "recorded_on", "model")
    }
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(len(jobs))],
            "submit_time": [job.submit for job in jobs],
            "num_gpus": [job.num_gpus for job in jobs],
            "duration": [job.duration for job in jobs],
            "iterations": [job.iterations for job in jobs],
            "gradient_bytes": [job.gradient_bytes for job in jobs],
            "batch_size": [1] * len(jobs),
            "fp_time": [job.compute_time for job in jobs],
            "bp_time": [0.0] * len(jobs),
            "vc": pl.Series([None if job.vc is None else f"vc{job.vc}" for job in jobs], dtype=pl.String),
            **words,
        }
    )
