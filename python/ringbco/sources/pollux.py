"""Pollux' workloads and its profiles of six applications on T4 servers (OSDI 2021).

A job trains to the last epoch that was profiled, at the global batch size of the workload, which is part of
its model here: `cifar10 (batch size 2048)`. Iterations are thousandths of a step at the initial batch size.
The rates are goodputs: steps a second times what a step at that batch size is worth, averaged so that the
whole job takes as long as epoch by epoch.

A job may hold from one GPU to as many as its batch can be split over. Policies that do not resize jobs run it
on num_replicas.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.errors import InputError, UsageError
from ringbco.io.bridge import open_arrays
from ringbco.sources.account import ROW, drop
from ringbco.sources.parsing import number, optional_text
from ringbco.sources.rules import SECONDS, has_id, not_negative, timed, whole_gpus
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, clean_csv, refuse_empty
from ringbco.sources.tables import CsvTable
from ringbco.trace.jobs import read_columns
from ringbco.trace.rate_table import RateTable

JOBS: Final = CsvTable(
    role="jobs",
    what="a Pollux workload (workload-N.csv)",
    columns=("name", "time", "application", "num_replicas", "batch_size"),
    required=("name", "time", "application", "num_replicas", "batch_size"),
)
FINE: Final = 1000
"""Iterations in a step at the initial batch size: whole steps would lose time to the slot clock's floor."""
GPU_TYPE: Final = "T4"
_GPUS: Final = 4
"""GPUs of a server."""
_MOST_LOCAL: Final = {"yolov3": 8}
"""The largest batch on a GPU, where the simulator allows less than was profiled."""
_MOST_REPLICAS: Final = {"ncf": 1}
"""The most GPUs of a job, where the simulator allows fewer than its batch could be split over."""
_UNPROFILED: Final = "batch size on so many GPUs beyond the profiles"
_LEAST: Final = 1e-15
_MOST: Final = 1e16
"""What a number of a profile may be; the published ones are from 4e-11 to 7e15."""
_MOST_SAMPLES: Final = 2**31
_MOST_GPUS: Final = 2**20
_PROFILE: Final = ("local_bsz", "step_time", "sync_time")


@dataclass(frozen=True)
class Application:
    """What was profiled of an application.

    placed: (GPUs, servers) -> samples (local_bsz, step_time, sync_time), ascending by the first. epochs: by
    global batch size, rows (progress, grad_sqr, grad_var) an epoch.
    """

    name: str
    placed: Mapping[tuple[int, int], NDArray[np.float64]]
    epochs: Mapping[int, NDArray[np.float64]]
    least_local: int
    most_local: int

    def most_gpus(self, batch: int) -> int:
        """The most GPUs over which the simulator splits a global batch size."""
        return max(1, _MOST_REPLICAS.get(self.name, batch // self.least_local))

    @property
    def first_batch(self) -> int:
        """The initial batch size: what a step at it does is one."""
        return min(self.epochs)

    @property
    def progress(self) -> NDArray[np.float64]:
        """Steps at the initial batch size at the end of each epoch."""
        rows = min(len(epochs) for epochs in self.epochs.values())
        least: NDArray[np.float64] = np.min([epochs[:rows, 0] for epochs in self.epochs.values()], axis=0)
        return least

    def batches(self, gpus: int, wanted: int) -> tuple[int, int]:
        """The batch on a GPU, and how many of them make a step, for a global batch size."""
        local = math.ceil(wanted / gpus)
        parts = math.ceil(local / self.most_local)
        if gpus == 1 and wanted > self.first_batch:
            parts = max(2, parts)  # the simulator measures the gradients' noise between two parts
        atomic = min(math.ceil(local / parts), max(self.epochs) // (gpus * parts))
        return atomic, parts

    def rate(self, gpus: int, servers: int, wanted: int) -> float | None:
        """Goodput, steps at the initial batch size a second; None where that batch was not profiled."""
        atomic, parts = self.batches(gpus, wanted)
        sizes, step, sync = self.placed[gpus, servers].T
        if not sizes[0] <= atomic <= sizes[-1]:
            return None
        step_time, sync_time = float(np.interp(atomic, sizes, step)), float(np.interp(atomic, sizes, sync))
        took = step_time + (parts - 1) * (step_time - sync_time)
        done = np.diff(self.progress, prepend=0.0)
        steps = float((done / self._gains(gpus * atomic * parts)).sum())
        return float(self.progress[-1]) / (steps * took)

    def _gains(self, batch: int) -> NDArray[np.float64]:
        """What a step at a global batch size is worth in each epoch."""
        sizes = sorted(self.epochs)
        rows = self.progress.size
        batch = min(max(batch, sizes[0]), sizes[-1])
        low = max(size for size in sizes if size <= batch)
        high = min(size for size in sizes if size >= batch)
        share = 0.0 if low == high else (batch - low) / (high - low)
        stats = (1.0 - share) * self.epochs[low][:rows] + share * self.epochs[high][:rows]
        square, variance = stats[:, 1], stats[:, 2]
        gains: NDArray[np.float64] = (variance + square) / (variance * self.first_batch / batch + square)
        return gains


def read(inputs: Inputs, options: Options) -> Trace:
    """The jobs, and the rates of every application and batch size among them."""
    if options.profiles is None:
        raise UsageError(
            "convert pollux: give --profiles DIR, the folder with one folder per application (placements.csv,"
            " scalability.csv, validation-*.csv): "
            f"`{SOURCE.command(inputs['jobs'].shown, JOBS)}`"
        )
    folder = options.profiles
    if not folder.is_dir():
        raise InputError("the folder of Pollux' profiles", file=folder, key="profiles", value=str(folder))
    names = sorted(entry.name for entry in folder.iterdir() if (entry / "placements.csv").is_file())
    if not names:
        one = (folder / "placements.csv").is_file()
        raise InputError(
            "holds no folder of an application with a placements.csv",
            file=folder,
            hint=f"it is that of one application: give --profiles {folder.parent}" if one else None,
        )
    batch = pl.col("batch_size")
    extras = [name for name in inputs.csv("jobs").columns if name and name not in JOBS.columns]
    notes = [f"columns not kept: {', '.join(extras)}"] if extras else []
    frame, account = clean_csv(
        inputs.csv("jobs"),
        [
            optional_text("name").alias("job_id"),
            optional_text("application"),
            *map(number, ("time", "num_replicas", "batch_size")),
        ],
        (
            has_id("name"),
            whole_gpus("num_replicas"),
            drop("num_replicas is 0", pl.col("num_replicas") == 0, "num_replicas", "one GPU or more"),
            *timed("time", expected=SECONDS),
            not_negative("time"),
            drop(
                "batch_size missing or not a whole number",
                batch.is_null() | ~batch.is_between(1, _MOST_SAMPLES) | (batch != batch.floor()),
                "batch_size",
                "a whole number of samples, 1 to 2^31",
            ),
            drop(
                "application without a profile",
                ~pl.col("application").is_in(names).fill_null(value=False),
                "application",
                f"one of {', '.join(names)}",
            ),
        ),
        unit="jobs",
        options=options,
        id_column="name",
    )
    refuse_empty(account, inputs["jobs"].shown)
    frame = frame.with_columns(
        model=pl.format("{} (batch size {})", "application", batch.cast(pl.UInt32)),
        num_gpus=pl.col("num_replicas").cast(pl.UInt32),
    )
    asked = frame.select("application", "model", batch.cast(pl.UInt32)).unique(maintain_order=True)
    applications = {
        name: _application(folder / name) for name in asked["application"].unique(maintain_order=True)
    }
    rows = [row for name, model, size in asked.iter_rows() for row in _rates(applications[name], model, size)]
    tables = pl.DataFrame(rows, schema=RateTable.form.schema, orient="row")
    work = {name: round(FINE * float(found.progress[-1])) for name, found in applications.items()}
    frame = frame.with_columns(
        iterations=pl.col("application").replace_strict(work, return_dtype=pl.UInt64),
        rate=pl.Series(_alone(frame, tables), dtype=pl.Float64),
    )
    unknown = frame.filter(pl.col("rate").is_nan())
    if unknown.height:
        if options.strict:
            expected = f"a number of GPUs at which {unknown['model'][0]} was profiled in {folder}"
            raise inputs.csv("jobs").bad_cell(int(unknown[ROW][0]), "num_replicas", expected)
        frame = frame.filter(~pl.col("rate").is_nan())
        account = account.without(_UNPROFILED, unknown.height)
        model, gpus, row = unknown.select("model", "num_gpus", ROW).row(0)
        line = inputs.csv("jobs").locate()(row, "num_replicas")[1]
        notes.append(f"first {_UNPROFILED}: line {line}, {model} on {gpus} GPUs")
        refuse_empty(account, inputs["jobs"].shown)
    least, most = _range(frame, tables, applications)
    frame = frame.with_columns(
        min_gpus=pl.Series(least, dtype=pl.UInt32), max_gpus=pl.Series(most, dtype=pl.UInt32)
    )
    frame = by_submission(
        frame.rename({"time": "submit_time"}),
        [
            *("job_id", "submit_time", "num_gpus", "duration", "model", "gpu_type", "iterations"),
            *("min_gpus", "max_gpus"),
        ],
        gpu_type=pl.lit(GPU_TYPE),
        duration=pl.col("iterations") / pl.col("rate"),
    )
    return Trace(
        frame,
        account,
        "1970-01-01T00:00:00",
        "a placeholder: the workload counts seconds from its beginning",
        notes=notes,
        choices={"profiles": folder.name},
        tables=tables,
    )


def _alone(frame: pl.DataFrame, tables: pl.DataFrame) -> NDArray[np.float64]:
    """The rate of each job on the fewest servers of four GPUs; NaN where nothing profiled says it."""
    return _Alone(tables).rates(frame["model"].to_list(), frame["num_gpus"].to_numpy())


class _Alone:
    """Rates on the fewest servers of four GPUs."""

    def __init__(self, tables: pl.DataFrame) -> None:
        self._number = {
            model: index for index, model in enumerate(tables["model"].unique(maintain_order=True))
        }
        model = np.array([self._number[name] for name in tables["model"]], np.uint32)
        sizes = (tables["gpus"].to_numpy(), tables["servers"].to_numpy())
        open_arrays()
        self._speeds = _core.SpeedTable(
            (len(self._number) + 1, 1), (model, np.zeros_like(model), *sizes), tables["rate"].to_numpy()
        )

    def rates(self, models: Sequence[str], gpus: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Of each model on so many GPUs; NaN where nothing profiled says it."""
        asked = np.array([self._number.get(name, len(self._number)) for name in models], np.uint32)
        return self._speeds.rates(asked, np.zeros_like(asked), gpus, (gpus + _GPUS - 1) // _GPUS)


def _range(
    frame: pl.DataFrame, tables: pl.DataFrame, applications: Mapping[str, Application]
) -> tuple[list[int], list[int]]:
    """The fewest and the most GPUs of each job: a batch that can be split so, and rates from end to end."""
    alone, runs = _Alone(tables), {}
    largest = int(tables["gpus"].max())  # type: ignore[arg-type]
    for model, name, batch in frame.select("model", "application", "batch_size").unique().iter_rows():
        most = min(applications[name].most_gpus(int(batch)), largest)
        known = ~np.isnan(alone.rates([model] * largest, np.arange(1, largest + 1, dtype=np.uint32)))
        runs[model] = most, known
    least, greatest = [], []
    for model, wanted in frame.select("model", "num_gpus").iter_rows():
        most, known = runs[model]
        low = high = wanted
        while low > 1 and known[low - 2]:
            low -= 1
        while high < most and known[high]:
            high += 1
        least.append(low)
        greatest.append(high)
    return least, greatest


def _rates(application: Application, model: str, batch: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a model: what was profiled of its batch size."""
    for gpus, servers in sorted(application.placed):
        rate = application.rate(gpus, servers, batch)
        if rate is not None:
            yield model, GPU_TYPE, gpus, servers, FINE * rate, None, None


def _application(folder: Path) -> Application:
    """The profiles in a folder. Raises InputError for a file that is missing or of another shape."""
    placements = _numbers(folder / "placements.csv", ("placement", *_PROFILE))
    placed: dict[tuple[int, int], NDArray[np.float64]] = {}
    packed: dict[tuple[int, int], str] = {}
    for key, own in placements.group_by("placement", maintain_order=True):
        # Of several ways to hold so many GPUs on so many servers, that which fills the most servers counts.
        digits = "".join(sorted(str(int(key[0])), reverse=True))
        size = sum(map(int, digits)), len(digits)
        if "0" in digits or digits <= packed.get(size, ""):
            continue
        packed[size], placed[size] = digits, own.select(_PROFILE).sort("local_bsz").to_numpy()
    scalability = _numbers(folder / "scalability.csv", ("num_replicas", "num_nodes", *_PROFILE))
    nodes, replicas = scalability["num_nodes"], scalability["num_replicas"]
    odd = (
        (nodes > replicas)
        | (replicas > _MOST_GPUS)
        | (nodes != nodes.floor())
        | (replicas != replicas.floor())
    )
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise InputError(
            f"whole numbers of GPUs, at most {_MOST_GPUS:,}, and of nodes, at most as many as GPUs",
            file=folder / "scalability.csv",
            row=row + 1,
            column="num_replicas, num_nodes",
            value=f"{replicas[row]:g}, {nodes[row]:g}",
        )
    for key, own in scalability.group_by("num_replicas", "num_nodes", maintain_order=True):
        size = int(key[0]), int(key[1])
        placed.setdefault(size, own.select(_PROFILE).sort("local_bsz").to_numpy())
    epochs = {}
    for path in sorted(folder.glob("validation-*.csv")):
        batch = path.stem.removeprefix("validation-")
        if not re.fullmatch("[1-9][0-9]{0,8}", batch):
            raise InputError("a name such as validation-128.csv, with a batch size", file=path)
        epochs[int(batch)] = _epochs(path)
    if not epochs:
        raise InputError("holds no validation-*.csv", file=folder)
    sizes = placements["local_bsz"]
    most = _MOST_LOCAL.get(folder.name, int(sizes.max()))  # type: ignore[arg-type]
    least = math.ceil(sizes.min())  # type: ignore[arg-type]
    return Application(folder.name, placed, epochs, least, most)


def _epochs(path: Path) -> NDArray[np.float64]:
    """The rows of a validation file, an epoch each. Raises InputError where they are not in their order."""
    frame = _numbers(path, ("progress", "grad_sqr", "grad_var"))
    progress = frame["progress"]
    early = (progress.diff() < 0).fill_null(value=False)
    if early.any():
        row = int(early.arg_max() or 0)
        expected = f"at least the progress of the row before, {progress[row - 1]:g}: epochs in their order"
        raise InputError(expected, file=path, row=row + 1, column="progress", value=progress[row])
    return frame.to_numpy()


def _numbers(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a CSV file, numbers > 0 or >= 0. Raises InputError naming the cell at fault."""
    raw = read_columns(path)
    missing = [name for name in columns if name not in raw.frame.columns]
    if missing:
        raise InputError(f"has no column {', '.join(missing)}", file=path, hint="is it a profile of Pollux?")
    frame = raw.frame.select(pl.col(name).cast(pl.Float64, strict=False) for name in columns)
    if frame.height == 0:
        raise InputError("has a header but no rows", file=path)
    for name in columns:
        may_be_0 = name in ("grad_sqr", "sync_time")  # what cannot be told from nothing
        least = 1.0 if name == "local_bsz" else _LEAST  # no batch is smaller than a sample
        good = frame[name].is_between(least, _MOST)
        bad = ~(good | (frame[name] == 0) if may_be_0 else good).fill_null(value=False)
        if bad.any():
            row = int(bad.arg_max() or 0)
            value = raw.frame[name][row]
            expected = f"{'0, or ' if may_be_0 else ''}a number > 0, from {least:g} to {_MOST:g}"
            raise InputError(expected, file=path, row=row + 1, column=name, value=value)
    if "sync_time" in columns and (odd := frame["sync_time"] > frame["step_time"]).any():
        row = int(odd.arg_max() or 0)
        expected = f"at most the step_time it is part of, {raw.frame['step_time'][row]}"
        value = raw.frame["sync_time"][row]
        raise InputError(expected, file=path, row=row + 1, column="sync_time", value=value)
    return frame


SOURCE: Final = Source(
    name="pollux",
    title="Pollux (Petuum): workloads with profiles of six applications",
    url="https://github.com/petuum/adaptdl/tree/osdi21-artifact",
    licence="Apache-2.0",
    citation="""\
@inproceedings{qiao2021pollux,
  author    = {Qiao, Aurick and Choe, Sang Keun and Subramanya, Suhas Jayaram and Neiswanger, Willie and
               Ho, Qirong and Zhang, Hao and Ganger, Gregory R. and Xing, Eric P.},
  title     = {Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning},
  booktitle = {15th USENIX Symposium on Operating Systems Design and Implementation (OSDI 21)},
  pages     = {1--18},
  year      = {2021}
}""",
    shapes=(JOBS,),
    needs=("jobs",),
    read=read,
    options=frozenset({"profiles"}),
    asks="--profiles DIR",
    cluster_hint="the paper's has 16 servers of 4 T4: --cluster 16x4",
)
