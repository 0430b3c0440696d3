"""The requests of a result as `why --request` reads them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.errors import InputError, UsageError, show_value
from ringbco.result.dates import zero_of
from ringbco.result.folder import cluster_of
from ringbco.result.why_request import Asked, Attempt, Teller
from ringbco.run.copies import copies_of
from ringbco.trace.requests import Requests
from ringbco.trace.serving import ServingFile
from ringbco.trace.side_tables import ReadContext

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome
    from ringbco.result.why_request import RequestStory
    from ringbco.trace.serving import ServiceKeys


def requests_of(outcome: Outcome) -> tuple[ServingFile, Requests]:
    """The serving file of a run, and its requests, of which requests.parquet has a row each.

    Raises InputError where the requests are not there, or have changed.
    """
    given = copies_of(outcome.run, lambda _: None)
    serving = ServingFile.read(given["services"])
    known = ReadContext.of(cluster_of(outcome.run), None, zero_of(outcome))
    requests = Requests.read(given["requests"], known, serving=serving)
    rows = outcome.requests
    if rows is not None and not np.array_equal(rows["row"].to_numpy(), requests.rows):
        raise InputError("a row for each request of run.toml", file="requests.parquet")
    return serving, requests


@dataclass(frozen=True)
class RequestRecord:
    """A request and those of its service. place: among those; index: of the table of requests, from 0."""

    outcome: Outcome
    keys: ServiceKeys
    asked: Asked
    place: int
    index: int

    @classmethod
    def read(cls, outcome: Outcome, row: int, name: str) -> RequestRecord:
        """That of a row of the file. name: what the command calls the result.

        Raises InputError where the result has no requests or no rows of them, or there is no such row,
        UsageError for what is no row.
        """
        if isinstance(row, bool) or not isinstance(row, int):
            raise UsageError(f"request: {show_value(row)}: expected the row of a request, an integer >= 0")
        if outcome.run.get("requests") is None:
            raise InputError("a result of a run with requests; this one has none", file=name)
        rows = outcome.requests
        if rows is None:
            again = shlex.join(("ringbco", "replay", "--again", name, "--request-rows", "-o", f"{name}-rows"))
            raise InputError(f"who answered which request, which the run did not write: {again}", file=name)
        at = np.flatnonzero(rows["row"].to_numpy() == row)
        if not at.size:
            told = f"a row of requests.parquet, {rows['row'][0]} to {rows['row'][-1]}"
            raise InputError(told, file=name, value=row, hint="rows count from 0")
        return cls._of(outcome, int(at[0]))

    @classmethod
    def _of(cls, outcome: Outcome, index: int) -> RequestRecord:
        serving, requests = requests_of(outcome)
        rows = outcome.requests
        assert rows is not None
        service, arrival, *columns = requests.columns(serving)
        number = int(service[index])
        own = np.flatnonzero(service == number)
        own = own[np.argsort(arrival[own], kind="stable")]

        def told(name: str) -> NDArray[Any]:
            column: NDArray[Any] = rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy()[own]
            return column

        taken, tokens, cached = (each[own].astype(np.int64) for each in columns)
        replica = told("replica").astype(np.int64)
        start, first, finish = map(told, ("start", "first_token", "finish"))
        file_rows = requests.rows[own].astype(np.int64)
        asked = Asked(file_rows, arrival[own], taken, tokens, cached, replica, start, first, finish)
        return cls(outcome, serving.services[number], asked, int(np.flatnonzero(own == index)[0]), index)

    @property
    def may_be_anew(self) -> bool:
        """Whether a replica may have given the request back, which no row tells."""
        told = self.outcome.summary.get("services")
        name = self.keys.name
        anew = any(row.get("begun_anew") for row in told or () if row.get("service") == name)
        replicas = self.outcome.replicas
        assert replicas is not None
        arrival, start = (float(each[self.place]) for each in (self.asked.arrival, self.asked.start))
        ends = replicas.filter(pl.col("service") == name, pl.col("end_time").is_between(arrival, start))
        return anew and ends.height > 0

    def attempts(self, cut_short: Mapping[str, NDArray[Any]]) -> list[Attempt]:
        """Those of the request, of the engine's columns."""
        own = np.flatnonzero(cut_short["row"] == self.index)
        return sorted(Attempt(float(cut_short["start"][at]), float(cut_short["end"][at])) for at in own)

    def tell(self, attempts: Sequence[Attempt], why_not: str | None = None) -> RequestStory:
        """The story. attempts, why_not: as `Teller.story` takes them."""
        return Teller(self.outcome, self.keys, self.asked, self.place).story(attempts, why_not)
