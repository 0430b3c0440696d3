"""Model profiles: what the simulator needs of a job beyond its recorded duration (docs/profiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.fabric import at_best
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError, show_value
from ringbco.trace.jobs import MAX_COUNT, MOST_SECONDS, JobTable, near_name
from ringbco.trace.splitmix import GOLDEN, fnv1a, mix

Floats = NDArray[np.float64]

LEAST_SECONDS: Final = 1e-100
"""What a job takes alone, at least: with less, a slowdown may be beyond float64."""
BYTES_PER_PARAMETER: Final = 4
"""Gradients are exchanged in single precision."""


@dataclass(frozen=True)
class ModelProfile:
    """A real model on one V100-class GPU.

    compute_time: seconds of forward and backward pass per iteration on a GPU's own mini-batch, without
        communication.
    source: where `parameters` and `compute_time` come from, and how the latter was derived.
    """

    name: str
    parameters: int
    compute_time: float
    source: str

    @property
    def gradient_bytes(self) -> float:
        """Bytes each worker contributes to an all-reduce."""
        return float(BYTES_PER_PARAMETER * self.parameters)


_NVIDIA: Final = "github.com/NVIDIA/DeepLearningExamples, PyTorch/"
_LAMBDA: Final = "lambdalabs.com/blog/2080-ti-deep-learning-benchmarks (V100, FP32)"
_SUSTAINED_FLOPS: Final = 39e12
_SUSTAINED: Final = (
    "6 floating-point operations per parameter and token at the 39 TFLOP/s that Megatron-LM "
    "(arXiv 1909.08053) sustained on one V100"
)


def _transformer_time(parameters: int, tokens: int) -> float:
    """Seconds of training on `tokens` tokens: 2 operations forward, 4 backward, per parameter and token."""
    return 6 * parameters * tokens / _SUSTAINED_FLOPS


CATALOGUE: Final = (
    ModelProfile(
        "ResNet-50",
        25_557_032,
        64 / 380.44,
        "parameters: torchvision; 64 images at 380.44 img/s, V100 16 GB, FP32: "
        f"{_NVIDIA}Classification/ConvNets/resnet50v1.5",
    ),
    ModelProfile(
        "ResNet-152",
        60_192_808,
        32 / 155,
        f"parameters: torchvision; 32 images at 155 img/s: {_LAMBDA}",
    ),
    ModelProfile(
        "Inception-v3",
        27_161_264,
        64 / 259,
        f"parameters: torchvision; 64 images at 259 img/s: {_LAMBDA}",
    ),
    ModelProfile(
        "VGG-16",
        138_357_544,
        64 / (1.4 * 154),
        "parameters: torchvision; 64 images at 154 img/s on P100 (tensorflow.org/performance/benchmarks), "
        "times 1.4, V100 over P100 in FP32 as measured by Dell EMC",
    ),
    ModelProfile(
        "SE-ResNeXt-101",
        48_955_416,
        32 / 128.23,
        "parameters: timm seresnext101_32x4d; 32 images at 128.23 img/s, V100 16 GB, FP32: "
        f"{_NVIDIA}Classification/ConvNets/se-resnext101-32x4d",
    ),
    ModelProfile(
        "EfficientNet-B0",
        5_288_548,
        64 / 655,
        "parameters: torchvision; 64 images at 655 img/s, V100 16 GB, FP32: "
        f"{_NVIDIA}Classification/ConvNets/efficientnet",
    ),
    ModelProfile(
        "EfficientNet-B4",
        19_341_616,
        64 / 204,
        "parameters: torchvision; 64 images at 204 img/s, V100 16 GB, mixed precision: "
        f"{_NVIDIA}Classification/ConvNets/efficientnet",
    ),
    ModelProfile(
        "NCF",
        31_832_577,
        1_048_576 / 10.42e6,
        "parameters: counted from the layers for MovieLens-20M; 1,048,576 samples at 10.42 million/s, "
        f"V100 16 GB, FP32: {_NVIDIA}Recommendation/NCF",
    ),
    ModelProfile(
        "Transformer-big",
        213_000_000,
        5_120 / 32_153,
        "parameters: Vaswani et al., arXiv 1706.03762; 5,120 tokens at 32,153 tokens/s, V100 16 GB, mixed "
        f"precision: {_NVIDIA}Translation/Transformer",
    ),
    ModelProfile(
        "Transformer-XL",
        191_950_298,
        32 * 192 / 36_692,
        "parameters: base model on WikiText-103, counted from the layers; 32 x 192 tokens at 36,692 "
        f"tokens/s, V100 16 GB, mixed precision: {_NVIDIA}LanguageModeling/Transformer-XL",
    ),
    ModelProfile(
        "BERT-base",
        109_482_240,
        _transformer_time(109_482_240, 64 * 128),
        f"parameters: bert-base-uncased; 64 sequences of 128 tokens, {_SUSTAINED}",
    ),
    ModelProfile(
        "BERT-large",
        335_141_888,
        64 / 171.52,
        "parameters: bert-large-uncased; 64 sequences of 128 tokens at 171.52 sequences/s, V100 32 GB, mixed "
        f"precision: {_NVIDIA}LanguageModeling/BERT",
    ),
    ModelProfile(
        "GPT-2",
        124_439_808,
        _transformer_time(124_439_808, 8 * 1024),
        f"parameters: gpt2 (the smallest); 8 sequences of 1,024 tokens, {_SUSTAINED}",
    ),
    ModelProfile(
        "GPT-2-medium",
        354_823_168,
        _transformer_time(354_823_168, 4 * 1024),
        f"parameters: gpt2-medium; 4 sequences of 1,024 tokens, {_SUSTAINED}",
    ),
)
"""The catalogue. Its order and length are part of what a seed means: a job's entry is hash modulo length."""


@dataclass(frozen=True)
class Profiled:
    """What models say of each job, all of length num_jobs.

    iterations: F_j, uint64. gradient_bytes: m_j.
    compute_time: fp_time * batch_size + bp_time, seconds per iteration.
    tau0: seconds per uncontended iteration on the fewest servers of the run's cluster that can hold the job.
    ideal_run_time: iterations * tau0. estimate: rho_j, iterations times tau on one server.
    Under the model `fixed`, the last two are the recorded duration and the rest is zero.
    """

    iterations: NDArray[np.uint64]
    gradient_bytes: Floats
    compute_time: Floats
    tau0: Floats
    ideal_run_time: Floats
    estimate: Floats


_BLOCK: Final = 1 << 16
"""Rows worked out at once."""


def fewest_servers(num_gpus: NDArray[np.uint32], server_gpus: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The least number of servers that hold each job when all are idle, the largest being filled first.

    A job larger than all servers together is counted as if there were more servers of the largest size.
    """
    most = int(num_gpus.max(initial=0))
    if most < num_gpus.size:  # worked out once for each number of GPUs
        by_size: NDArray[np.uint32] = _fewest_of(np.arange(most + 1), server_gpus)[num_gpus]
        return by_size
    return _fewest_of(num_gpus.astype(np.int64), server_gpus)


def _fewest_of(wanted: NDArray[np.int64], server_gpus: NDArray[np.uint32]) -> NDArray[np.uint32]:
    capacity = np.cumsum(np.sort(server_gpus)[::-1], dtype=np.int64)
    needed = np.searchsorted(capacity, wanted, side="left") + 1
    largest = int(server_gpus.max())
    more = (np.maximum(wanted - capacity[-1], 0) + largest - 1) // largest
    fewest: NDArray[np.int64] = np.minimum(needed, server_gpus.size) + more
    return fewest.astype(np.uint32)


def iteration_time(  # noqa: PLR0917 - equation 8 has six arguments
    num_gpus: NDArray[np.uint32],
    gradient_bytes: Floats,
    compute_time: Floats,
    num_servers: NDArray[np.uint32],
    network: Network,
    across: Floats | None = None,
) -> Floats:
    """Seconds per iteration, tau_j of equation 8, in float64, left to right (docs/model.md#contention).

    across: B_j where num_servers > 1, bytes/s; None for inter_bandwidth: no link is shared.
    """
    times = np.empty(num_gpus.size)
    for first in range(0, num_gpus.size, _BLOCK):  # what is between fits in the cache
        rows = slice(first, first + _BLOCK)
        times[rows] = _iteration_time(
            *(num_gpus[rows], gradient_bytes[rows], compute_time[rows], num_servers[rows], network),
            None if across is None else across[rows],
        )
    return times


def _iteration_time(  # noqa: PLR0917 - as above
    num_gpus: NDArray[np.uint32],
    gradient_bytes: Floats,
    compute_time: Floats,
    num_servers: NDArray[np.uint32],
    network: Network,
    across: Floats | None,
) -> Floats:
    workers = num_gpus.astype(np.float64)
    servers = num_servers.astype(np.float64)
    with np.errstate(over="ignore"):
        spanning = network.inter_bandwidth if across is None else across
        bandwidth = np.where(num_servers > 1, spanning, network.intra_bandwidth)
        exchanged = gradient_bytes * (workers - 1.0) / workers
        time: Floats = (
            2.0 * exchanged / bandwidth
            + exchanged / network.reduce_speed
            + network.xi2 * servers
            + compute_time
        )
    return time


def resolve(table: JobTable, cluster: Cluster, *, model: str, seed: int) -> Profiled:
    """What models say of the jobs of a table on a cluster.

    What the table does not say (a column absent or a value null) is filled: gradient_bytes and the compute
    columns from the job's catalogue entry, then iterations as max(1, round(duration / tau)). That tau is the
    uncontended iteration time on the fewest servers of the recorded cluster, `cluster.recorded_on`: the work
    of a job does not depend on the replayed cluster. The entry is that which the column `model`
    names, else one chosen by `choose`. Where the table gives iterations and no compute column, the compute
    time is what the recorded duration leaves beside communication there, 0 if it leaves none. With virtual
    clusters, tau0 is for the servers of the job's own.

    Raises InputError for a job of no virtual cluster of the cluster, or whose iteration takes no time or no
    finite time; UsageError for a model other than `rar` and `fixed`: `measured.resolve` is for `table`.
    """
    frame = table.frame
    duration = frame["duration"].to_numpy()
    if model == "fixed":
        zeros = np.zeros(table.num_jobs)
        require_length(table, duration)
        return Profiled(zeros.astype(np.uint64), zeros, zeros, zeros, duration, duration)
    if model != "rar":
        raise UsageError(f"model {model!r}: expected rar or fixed")
    (num_gpus, count), recorded_on = (
        (frame["num_gpus"].to_numpy(), table.num_jobs),
        cluster.recorded_on.network,
    )
    few, across = _at_best(num_gpus, vc_index(table, cluster), cluster)
    few_recorded, across_then = _at_best(num_gpus, _known_vc(table, cluster.recorded_on), cluster.recorded_on)
    as_recorded = (
        recorded_on == cluster.network and across is across_then is None and np.array_equal(few, few_recorded)
    )
    given = floats(frame, "iterations") if "iterations" in frame.columns else None
    gradient, compute, silent = _gradient_and_compute(frame, seed)
    found = Profiled(np.empty(count, np.uint64), gradient, compute, *(np.empty(count) for _ in range(3)))
    takes, ends, started, counted, short = np.empty((5, count), bool)
    for first in range(0, count, _BLOCK):  # what is between fits in the cache
        rows = slice(first, first + _BLOCK)
        then = few_recorded[rows], recorded_on, _of(across_then, rows)
        if given is not None:
            left = duration[rows] / given[rows] - iteration_time(
                *(num_gpus[rows], gradient[rows], np.zeros_like(given[rows])), *then
            )
            derived = silent[rows] & ~np.isnan(given[rows])
            compute[rows] = np.where(derived, np.maximum(0.0, left), compute[rows])
        ring = num_gpus[rows], gradient[rows], compute[rows]
        tau0, alone = (
            iteration_time(*ring, few[rows], cluster.network, _of(across, rows)),
            iteration_time(*ring, np.ones_like(ring[0]), cluster.network),
        )
        recorded = tau0 if as_recorded else iteration_time(*ring, *then)
        with np.errstate(all="ignore"):  # what is beyond all measure is refused below
            iterations = np.maximum(1.0, np.rint(duration[rows] / recorded))
            if given is not None:
                iterations = np.where(np.isnan(given[rows]), iterations, given[rows])
            counted[rows] = iterations <= MAX_COUNT
            found.iterations[rows] = iterations
        longer = np.maximum(tau0, alone)
        takes[rows], ends[rows] = np.minimum(tau0, alone) > 0, np.isfinite(longer)
        started[rows] = (recorded > 0) & np.isfinite(recorded)
        with np.errstate(all="ignore"):
            short[rows] = longer <= MOST_SECONDS / found.iterations[rows]
            found.tau0[rows] = tau0
            np.multiply(found.iterations[rows], tau0, out=found.ideal_run_time[rows])
            np.multiply(found.iterations[rows], alone, out=found.estimate[rows])
    _require_time(table, takes, "an iteration that takes some time, this one takes none")
    _require_time(table, ends, "an iteration that ends, this one takes infinitely long")
    _require_time(table, started, "a recorded iteration of some and of finite time")
    row = _first(~counted)
    if row is not None:
        one = slice(row, row + 1)
        ring = num_gpus[one], found.gradient_bytes[one], found.compute_time[one]
        each = iteration_time(*ring, few_recorded[one], recorded_on, _of(across_then, one))[0]
        raise InputError(
            f"a duration of at most {MAX_COUNT} iterations (of {each:.3g} s each)",
            file=table.source,
            row=row + 1,
            column="duration",
            value=float(duration[row]),
            hint="durations are in seconds",
        )
    _require_time(table, short, f"a run of at most {MOST_SECONDS:.0e} s alone")
    require_length(table, found.ideal_run_time, found.estimate)
    return found


def _at_best(
    num_gpus: NDArray[np.uint32], vc: NDArray[Any] | None, cluster: Cluster
) -> tuple[NDArray[np.uint32], Floats | None]:
    """The fewest servers for each job, and the bandwidth between them."""
    few = fewest_of(num_gpus, vc, cluster)
    return few, at_best(cluster, num_gpus, few, vc)


def _of(column: Floats | None, rows: slice) -> Floats | None:
    return None if column is None else column[rows]


def fewest(table: JobTable, cluster: Cluster) -> NDArray[np.uint32]:
    """The fewest servers of the cluster, or of the job's virtual cluster, that hold each job."""
    return fewest_of(table.frame["num_gpus"].to_numpy(), vc_index(table, cluster), cluster)


def fewest_recorded(table: JobTable, recorded: Cluster) -> NDArray[np.uint32]:
    """The same of the cluster that recorded the trace; a job of none of its virtual clusters counts all."""
    return fewest_of(table.frame["num_gpus"].to_numpy(), _known_vc(table, recorded), recorded)


def vc_index(table: JobTable, cluster: Cluster) -> NDArray[np.uint32] | None:
    """Each job's virtual cluster as an index into `cluster.vc_names`; None when the cluster has none.

    Raises InputError for the first job that names none of them.
    """
    names = cluster.vc_names
    if not names:
        return None
    expected = f"one of the cluster's virtual clusters ({', '.join(names)})"
    if "vc" not in table.frame.columns:
        raise InputError(
            "the column vc is missing, but the cluster is divided into virtual clusters",
            file=table.source,
            hint="add the column, or give a cluster whose servers name no vc",
        )
    vcs = table.frame["vc"]
    index = vcs.replace_strict(list(names), list(range(len(names))), default=None, return_dtype=pl.UInt32)
    if index.null_count():
        row = int(index.is_null().arg_max() or 0)
        near = near_name(vcs[row] or "", names)
        raise InputError(
            expected,
            file=table.source,
            row=row + 1,
            column="vc",
            value=vcs[row],
            hint=(f"did you mean {near}? Else " if near else "")
            + "give the cluster servers of that vc, pool all servers with --vc pool, or leave such jobs out"
            " (`ringbco convert philly` and `helios`: --known-vcs)",
        )
    return index.to_numpy()


def choose(job_ids: pl.Series, seed: int) -> NDArray[np.int64]:
    """The catalogue index of each job: a function of (seed, job_id) alone, uniform over the catalogue.

    The id's 64-bit FNV-1a hash starts a SplitMix64 generator; output number seed + 1, modulo the catalogue's
    length, is the index.
    """
    found = drawn(job_ids, seed)
    found %= np.uint64(len(CATALOGUE))
    return found.view(np.int64)


def drawn(job_ids: pl.Series, number: int) -> NDArray[np.uint64]:
    """Output `number` + 1 of each job's generator, as `choose` describes it: uniform over 64 bits."""
    state = fnv1a(job_ids)
    state += np.uint64((number + 1) * GOLDEN % 2**64)
    return mix(state)


def _gradient_and_compute(frame: pl.DataFrame, seed: int) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """gradient_bytes and compute_time, from the table's columns where they speak, else from the catalogue.

    And the jobs of which no compute column speaks. The arrays are the caller's own.
    """
    gradient_of = np.array([profile.gradient_bytes for profile in CATALOGUE])
    compute_of = np.array([profile.compute_time for profile in CATALOGUE])
    if not {"gradient_bytes", "fp_time", "bp_time"} & set(frame.columns):
        entry = entries(frame, seed)
        return gradient_of.take(entry), compute_of.take(entry), np.ones(frame.height, np.bool_)
    gradient = floats(frame, "gradient_bytes")
    forward, backward = floats(frame, "fp_time"), floats(frame, "bp_time")
    batch = floats(frame, "batch_size")
    absent = np.isnan(forward) & np.isnan(backward)
    with np.errstate(over="ignore"):  # beyond all measure: `resolve` says so of the job
        compute = np.nan_to_num(forward) * np.where(np.isnan(batch), 1.0, batch) + np.nan_to_num(backward)
    if np.isnan(gradient).any() or absent.any():
        entry = entries(frame, seed)
        gradient = np.where(np.isnan(gradient), gradient_of[entry], gradient)
        compute = np.where(absent, compute_of[entry], compute)
    return gradient, compute, absent


def entries(frame: pl.DataFrame, seed: int) -> NDArray[np.intp]:
    """Each job's catalogue index: by the name in the column `model` in any case of letters, else by hash."""
    chosen = choose(frame["job_id"], seed)
    if "model" not in frame.columns:
        return chosen
    names = [profile.name.lower() for profile in CATALOGUE]
    named = frame["model"].str.to_lowercase()
    index = named.replace_strict(names, list(range(len(names))), default=None, return_dtype=pl.Int64)
    return np.where(index.is_not_null().to_numpy(), index.fill_null(0).to_numpy(), chosen)


def _known_vc(table: JobTable, cluster: Cluster) -> NDArray[np.int64] | None:
    """Each job's virtual cluster as an index into `cluster.vc_names`, -1 for one that is none of them."""
    names = cluster.vc_names
    if not names or "vc" not in table.frame.columns:
        return None
    vcs = table.frame["vc"]
    return vcs.replace_strict(
        list(names), list(range(len(names))), default=-1, return_dtype=pl.Int64
    ).to_numpy()


def fewest_of(
    num_gpus: NDArray[np.uint32], index: NDArray[Any] | None, cluster: Cluster
) -> NDArray[np.uint32]:
    """The fewest servers of each job; `index`: its virtual cluster, -1 for the whole cluster."""
    fewest = fewest_servers(num_gpus, cluster.server_gpus)
    for number, name in enumerate(cluster.vc_names if index is not None else ()):
        own = index == number
        fewest[own] = fewest_servers(num_gpus[own], cluster.server_gpus[cluster.vc_servers(name)])
    return fewest


def floats(frame: pl.DataFrame, name: str) -> Floats:
    """A numeric column as float64 with NaN for absent values; all NaN when there is no such column."""
    if name not in frame.columns:
        return np.full(frame.height, np.nan)
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def require_length(table: JobTable, *run_times: Floats) -> None:
    """Raises InputError for the first job whose run alone, s, is so short that a slowdown has no end."""
    shortest = run_times[0] if len(run_times) == 1 else np.minimum(*run_times)
    if not shortest.min(initial=LEAST_SECONDS) < LEAST_SECONDS:
        return
    row = int(np.argmax(shortest < LEAST_SECONDS))
    raise InputError(
        f"a job that alone runs for {LEAST_SECONDS:g} s or longer, not {show_value(float(shortest[row]))} s",
        file=table.source,
        row=row + 1,
        column="duration",
        value=float(table.frame["duration"][row]),
        hint="durations are in seconds",
    )


def _require_time(table: JobTable, good: NDArray[np.bool_], expected: str) -> None:
    row = _first(~good)
    if row is not None:
        raise InputError(
            expected,
            file=table.source,
            row=row + 1,
            column="job_id",
            value=table.frame["job_id"][row],
            hint="mend its gradient_bytes, fp_time and bp_time, or the network's constants",
        )


def _first(mask: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None
