"""What measured speeds mean to jobs: their iterations, and how long each takes alone (docs/tables.md).

Invariant: after `resolve` every job has a rate on each GPU type that it may use, and one of them is above 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.io.bridge import open_arrays
from ringbco.trace import gpu_type_choices, profiles
from ringbco.trace.jobs import MAX_COUNT, MOST_SECONDS, JobTable, gpus_of
from ringbco.trace.rate_table import RateTable

Numbers = NDArray[np.uint32]
Floats = NDArray[np.float64]


class Measured(NamedTuple):
    """What a run under the model `table` needs beside the job table.

    profiled: as `profiles.Profiled` has it; what only eq. 8 reads is 0. types: as the engine takes them, each
    kind with the type whose rate counts where nothing runs yet. speeds: likewise.
    """

    profiled: profiles.Profiled
    types: _core._Types
    speeds: _core._Rates


def resolve(table: JobTable, cluster: Cluster, rates: RateTable) -> Measured:
    """The iterations and rates of all jobs on a cluster whose servers name GPU types.

    Raises InputError for a job without a model, and for one whose model and type are not in the table.
    """
    return _Lookup(table, cluster, rates).resolve()


def limits(table: JobTable, cluster: Cluster, rates: RateTable) -> tuple[Floats, Floats]:
    """Of each job the shortest run time, s, and the least GPU-seconds, by the best speeds that it may have.

    On any GPUs in its range, of any type that it may use, over any number of servers, beside any partner.
    """
    return _Lookup(table, cluster, rates).limits(rates)


class _Lookup:
    """The jobs' models, the types and the table by number: the cluster's types first, in its order."""

    def __init__(self, table: JobTable, cluster: Cluster, rates: RateTable) -> None:
        kinds_of = gpu_type_choices.resolve(table, cluster, always=True)
        assert kinds_of is not None, "servers name GPU types"
        self.table, self.cluster, self.source = table, cluster, rates.source
        self.of, self.kinds = kinds_of.of, kinds_of.kinds
        self.gpus: Numbers = table.frame["num_gpus"].to_numpy()
        recorded = [kind.recorded_on for kind in self.kinds]
        names = dict.fromkeys(name.casefold() for name in (*cluster.types, *rates.types, *recorded))
        self.number = {name: index for index, name in enumerate(names)}
        self.types = [*cluster.types, *[*names][len(cluster.types) :]]
        alone = rates.alone
        self.models = {name: index for index, name in enumerate(alone["model"].unique(maintain_order=True))}
        types = [self.number[name.casefold()] for name in alone["gpu_type"]]
        open_arrays()
        self.speeds = _core.SpeedTable(
            (len(self.models) + 1, len(self.types)),
            (
                np.array([self.models[name] for name in alone["model"]], np.uint32),
                np.array(types, np.uint32),
                alone["gpus"].to_numpy(),
                alone["servers"].to_numpy(),
            ),
            alone["rate"].to_numpy(),
            self._partners(rates.pairs),
        )
        self.model_of = self._models()

    def _partners(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers, Numbers, Floats, Floats]:
        """The rows of two jobs on one GPU as the engine takes them; only models that may run meet."""
        known = rows.filter(pl.col(name).is_in([*self.models]) for name in ("model", "partner"))
        model, partner = (
            np.array([self.models[name] for name in known[column]], np.uint32)
            for column in ("model", "partner")
        )
        types = np.array([self.number[name.casefold()] for name in known["gpu_type"]], np.uint32)
        return model, types, partner, known["rate"].to_numpy(), known["partner_rate"].to_numpy()

    def _models(self) -> Numbers:
        """Each job's model by number; one more than there are for a model that the table lacks."""
        frame = self.table.frame
        named = frame["model"] if "model" in frame.columns else pl.Series([None], dtype=pl.String)
        if named.null_count():
            row = int(named.is_null().arg_max() or 0)
            raise InputError(
                "the name of a model: under model table it says which speeds count",
                file=self.table.source,
                row=row + 1,
                column="model",
                value=None,
                hint=f"name one of {self.source}, or use --model fixed",
            )
        names = pl.Series([*self.models], dtype=pl.String)  # none, where the table has pairs only
        numbers = range(len(names))
        found = named.replace_strict(names, [*numbers], default=len(names), return_dtype=pl.UInt32)
        return found.to_numpy()

    def rate(self, gpu_type: Numbers, servers: Numbers, rows: NDArray[Any] | None = None) -> Floats:
        """The jobs' rates with num_gpus; NaN where the table has no entry."""
        rows = np.arange(self.gpus.size) if rows is None else rows
        return self.speeds.rates(self.model_of[rows], gpu_type, self.gpus[rows], servers)

    def resolve(self) -> Measured:
        """See `resolve`."""
        table, cluster = self.table, self.cluster
        fits = self._check_allowed()
        few = profiles.fewest(table, cluster)
        recorded = np.array([self.number[kind.recorded_on.casefold()] for kind in self.kinds], np.uint32)[
            self.of
        ]
        reference = recorded.copy()
        rate = self.rate(recorded, few)
        self._require(fits & np.isnan(rate), recorded, few)
        zero = fits & (rate == 0)
        if zero.any():
            reference[zero] = self._fastest(few, np.flatnonzero(zero))
            rate = self.rate(reference, few)
        alone = self.rate(reference, np.ones_like(few))
        iterations = self._iterations(recorded, fits)
        # A rate may be so small that a time is infinite; such a run is refused.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            tau0, least = 1.0 / rate, 1.0 / alone
            # Those that no type can hold are refused or left out: what they would take is nobody's concern.
            tau0[~fits], least[~fits] = 1.0, 1.0
            run, shortest = iterations * tau0, iterations * least
        self._bound(run)
        profiles.require_length(table, run, shortest)
        zeros = np.zeros(table.num_jobs)
        profiled = profiles.Profiled(iterations, zeros, zeros, tau0, run, shortest)
        pairs, of = np.unique(np.stack((self.of, reference)), axis=1, return_inverse=True)
        told = [(self.kinds[kind], int(on)) for kind, on in pairs.T]
        return Measured(
            profiled,
            {
                "of": of.astype(np.uint32),
                "kinds": [(kind.recorded_speed, on, list(kind.allowed)) for kind, on in told],
            },
            {"model_of": self.model_of, "table": self.speeds},
        )

    def limits(self, table: RateTable) -> tuple[Floats, Floats]:
        """See `limits`."""
        frame, server_types = self.table.frame, self.cluster.server_types
        assert server_types is not None
        shared = frame["gpu_share"].is_not_null() if "gpu_share" in frame.columns else pl.lit(value=False)
        asked = frame.select(
            model=pl.Series(self.model_of),
            kind=pl.Series(self.of),
            least=pl.Series(gpus_of(frame, "min_gpus")),
            most=pl.Series(gpus_of(frame, "max_gpus")),
            shared=shared,
        )
        distinct = asked.unique(maintain_order=True).with_row_index("of")
        of = asked.join(distinct, on=asked.columns, how="left", maintain_order="left")["of"].to_numpy()
        spread = table.alone["servers"].unique()
        best = np.zeros((2, distinct.height))
        for row, model, kind, least, most, shares in distinct.iter_rows():
            for number, _ in self.kinds[kind].allowed:
                here = server_types == number
                total, servers = int(self.cluster.server_gpus[here].sum()), int(here.sum())
                sizes = np.arange(least, min(most, total) + 1, dtype=np.uint32)
                on = np.unique([1, *spread.filter(spread <= servers)]).astype(np.uint32)
                gpus, over = (each.ravel() for each in np.meshgrid(sizes, on))
                same = np.full((2, gpus.size), [[model], [number]], np.uint32)
                rates = np.nan_to_num(self.speeds.rates(same[0], same[1], gpus, over))
                if gpus.size:
                    best[0, row] = max(best[0, row], rates.max())
                    best[1, row] = max(best[1, row], (rates / gpus).max())
                if shares and sizes.size:
                    beside = self._best_beside(table.pairs, model, self.types[number])
                    best[:, row] = np.maximum(best[:, row], beside)
        best[best == 0] = 1.0  # who cannot run at all
        iterations = self.resolve().profiled.iterations
        return iterations / best[0, of], iterations / best[1, of]

    def _best_beside(self, pairs: pl.DataFrame, model: int, gpu_type: str) -> float:
        """The greatest rate of a model beside a partner; 0 where none was measured."""
        name = [*self.models][model]
        here = pairs.filter(pl.col("gpu_type").str.to_lowercase() == gpu_type.lower())
        rates = [
            here.filter(pl.col("model") == name)["rate"].max(),
            here.filter(pl.col("partner") == name)["partner_rate"].max(),
        ]
        return max((float(rate) for rate in rates if rate is not None), default=0.0)  # type: ignore[arg-type]

    def _check_allowed(self) -> NDArray[np.bool_]:
        """Whether some type that a job may use has enough GPUs for it.

        Raises InputError where such a type has no rate for the job, with any number of GPUs that it may hold
        and that there are.
        """
        cluster, vc = self.cluster, profiles.vc_index(self.table, self.cluster)
        server_types = cluster.server_types
        assert server_types is not None
        least, most = gpus_of(self.table.frame, "min_gpus"), gpus_of(self.table.frame, "max_gpus")
        fits = np.zeros(self.gpus.size, np.bool_)
        for number in range(len(cluster.types)):
            here = server_types == number
            total = np.array([cluster.server_gpus[here].sum()])
            if vc is not None:
                total = np.array(
                    [
                        cluster.server_gpus[(of := cluster.vc_servers(name))][here[of]].sum()
                        for name in cluster.vc_names
                    ]
                )
            may = np.array([any(of == number for of, _ in kind.allowed) for kind in self.kinds])[self.of]
            room = np.broadcast_to(total, may.size) if vc is None else total[vc]
            may &= self.gpus <= room
            fits |= may
            asked = pl.DataFrame(
                {
                    "row": np.arange(may.size)[may],
                    "model": self.model_of[may],
                    "from": least[may],
                    "to": np.minimum(most, room)[may],
                }
            ).unique(["model", "from", "to"], keep="first", maintain_order=True)
            for row, model, first, last in asked.iter_rows():
                sizes = np.arange(first, last + 1, dtype=np.uint32)
                same = np.full((3, sizes.size), [[model], [number], [1]], np.uint32)
                missing = np.isnan(self.speeds.rates(same[0], same[1], sizes, same[2]))
                if missing.any():
                    raise self._no_entry(row, number, int(sizes[missing.argmax()]))
        return fits

    def _fastest(self, few: Numbers, rows: NDArray[np.intp]) -> Numbers:
        """Of some jobs the type on which they are fastest. Raises InputError for one that none can run."""
        best = np.zeros((2, rows.size))
        for number in range(len(self.cluster.types)):
            may = np.array([any(of == number for of, _ in kind.allowed) for kind in self.kinds])[
                self.of[rows]
            ]
            rate = self.rate(np.full(rows.size, number, np.uint32), few[rows], rows)
            better = may & (rate > best[0])
            best[0, better], best[1, better] = rate[better], number
        if (best[0] == 0).any():
            row = int(rows[best[0].argmin()])
            raise self._error(row, "a rate above 0 on one of the GPU types that it may use; all are 0")
        fastest: Numbers = best[1].astype(np.uint32)
        return fastest

    def _iterations(self, recorded: Numbers, fits: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """The column's; else those that the recorded run time takes on the recorded type and cluster."""
        given = profiles.floats(self.table.frame, "iterations")
        absent = np.isnan(given)
        if not absent.any():
            return given.astype(np.uint64)
        duration = self.table.frame["duration"].to_numpy()
        rate = self.rate(recorded, profiles.fewest_recorded(self.table, self.cluster.recorded_on))
        bad = absent & fits & ~(rate > 0)
        if bad.any():
            row = int(bad.argmax())
            on = self.types[recorded[row]]
            raise self._error(
                row, f"iterations, or a rate above 0 on {on}, on which it was recorded, to derive them from"
            )
        derived = np.maximum(1.0, np.rint(duration * np.where(rate > 0, rate, 1.0)))
        iterations = np.where(absent, derived, given)
        if (iterations > MAX_COUNT).any():
            row = int((iterations > MAX_COUNT).argmax())
            raise self._error(row, f"a duration of at most {MAX_COUNT} iterations ({rate[row]:g}/s)")
        return iterations.astype(np.uint64)

    def _bound(self, run: Floats) -> None:
        long = run > MOST_SECONDS
        if long.any():
            raise self._error(int(long.argmax()), f"a run of at most {MOST_SECONDS:.0e} s alone")

    def _require(self, missing: NDArray[np.bool_], recorded: Numbers, few: Numbers) -> None:
        if missing.any():
            row = int(missing.argmax())
            raise self._no_entry(row, int(recorded[row]), int(self.gpus[row]))

    def _no_entry(self, row: int, number: int, gpus: int) -> InputError:
        on, job = self.types[number], self.table.frame.row(row, named=True)
        size = f"{gpus} GPU{'s'[: gpus > 1]}"
        return InputError(
            f"a model whose rate on {size} of {on} is in {self.source}; job {job['job_id']!r} may run there",
            file=self.table.source,
            row=row + 1,
            column="model",
            value=job["model"],
            hint=f"add rows of model {job['model']} and gpu_type {on} that measure or bracket {size},"
            " or keep the job off that type with gpu_type",
        )

    def _error(self, row: int, expected: str) -> InputError:
        job = self.table.frame.row(row, named=True)
        return InputError(
            f"{expected}; job {job['job_id']!r}",
            file=self.table.source,
            row=row + 1,
            column="model",
            value=job["model"],
            hint=f"mend the rates in {self.source}, or the job",
        )
