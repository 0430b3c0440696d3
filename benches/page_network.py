"""How much two jobs on the same links slow each other: measured pairs beside the model (docs/tiers.md)."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

import ringbco
from page_tables import TableInputs, line
from page_traces import drawn
from ringbco.cluster.groups import ServerGroup

SHARES: Final = (0.05, 0.15, 0.3, 0.5)
"""Of an iteration alone, the part that is communication between servers."""


def measured(given: TableInputs) -> np.ndarray:
    """The speed of a job beside another one on the same servers, over its speed alone."""
    with (given.peers / "physical" / "deepshare" / "shared_thp_ratio.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return np.array([float(cell) for row in rows for cell in row[1:] if cell])


def beside(share: float, xi1: float) -> float:
    """The same of two equal jobs in a replay, each on two servers."""
    network = ringbco.Network(xi1=xi1, xi2=0.0, reduce_speed=1e300)
    cluster = ringbco.Cluster.from_groups([ServerGroup(2, 2)], network)
    ring = {"num_gpus": 2, "duration": 1000.0, "iterations": 1000, "batch_size": 1, "bp_time": 0.0}
    ring |= {"fp_time": 1.0 - share, "gradient_bytes": share * network.inter_bandwidth}

    class Together(ringbco.Policy):
        """Each job has a GPU of either server."""

        def decide(self, state: ringbco.State) -> None:
            for row in state.waiting.tolist():
                state.start(row, [(0, 1), (1, 1)])

    def run(jobs: int) -> float:
        frame = pl.DataFrame({"job_id": [f"j{row}" for row in range(jobs)]})
        table = frame.with_columns(submit_time=pl.lit(0.0), **{k: pl.lit(v) for k, v in ring.items()})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such jobs and GPUs are not meant to be likely
            return float(ringbco.replay(table, cluster, policy=Together).summary["makespan"])

    return run(1) / run(2)


BINS: Final = ("below 0.5", "0.5 to 0.6", "0.6 to 0.7", "0.7 to 0.8", "0.8 to 0.9", "0.9 to 1")


def pairs(given: TableInputs) -> Iterator[str]:
    """A row for the measured pairs, one for each xi1 and share of communication."""
    own = measured(given)
    yield line("two jobs on the same links", "mean", *BINS)
    yield line("---", *["---:"] * 7)
    place = np.clip((own * 10 + 1e-9).astype(int), 4, 9) - 4
    parts = np.bincount(place, minlength=6) / own.size
    yield line(f"{own.size} measured pairs", f"{own.mean():.2f}", *(f"{100 * part:.0f} %" for part in parts))
    yield line("xi1 = 0.5", f"{beside(SHARES[-1], 0.5):.2f}", *[""] * 5, "100 %")
    for share in SHARES:
        yield line(f"xi1 = 1, {100 * share:.0f} % communication", f"{beside(share, 1.0):.2f}", *[""] * 6)


def pairs_picture(text: str) -> bytes:
    """The measured pairs by speed, with the model's lines, as PNG. text: the table."""
    import altair as alt

    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()[2:]]
    part = [float(cell.removesuffix(" %")) / 100 for cell in cells[0][2:]]
    low, high = [0.4, *np.arange(5, 10) / 10], np.arange(5, 11) / 10
    bars = pl.DataFrame({"low": low, "high": high, "part": part})
    rules = pl.DataFrame(
        {"name": [row[0] for row in cells[1:]], "speed": [float(row[1]) for row in cells[1:]]}
    )
    scale = alt.Scale(domain=[0.4, 1.04], nice=False)
    ticks = [0.45, *low[1:], 1.0]
    axis = alt.Axis(values=ticks, labelExpr="datum.value < 0.5 ? 'below' : datum.label", grid=False)
    x = alt.X("low:Q", scale=scale, axis=axis, title="speed beside the other job / alone")
    y = alt.Y("part:Q", scale=alt.Scale(domain=[0, 0.42]), axis=alt.Axis(format="%"), title="measured pairs")
    bars = bars.with_columns(foot=pl.lit(0.0))
    base = (
        alt.Chart(bars).mark_rect(color="#8FC3EA", stroke="white").encode(x=x, x2="high:Q", y=y, y2="foot:Q")
    )
    rule = alt.Chart(rules).encode(x=alt.X("speed:Q", scale=scale, title=None))
    names = rule.mark_text(angle=270, align="right", dy=-7, color="#B3472B", fontSize=12).encode(
        y=alt.value(4), text="name:N"
    )
    chart = alt.layer(base, rule.mark_rule(color="#B3472B", strokeWidth=2), names)
    title = "Two jobs on the same servers and links: measured pairs (bars), and the model (lines)"
    return drawn(chart.properties(width=620, height=260, title=title))
