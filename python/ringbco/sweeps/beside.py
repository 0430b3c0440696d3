"""Tables that a run reads beside its job table: speeds, outages, maintenance, quotas, services, shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ringbco.run.outage_draws import Draw, as_draw, is_draw
from ringbco.trace.clocks import EPOCH, parse_epoch
from ringbco.trace.fair_shares import FairShares, as_fair_shares
from ringbco.trace.jobs import read_metadata
from ringbco.trace.outages import Outages, as_maintenance, as_outages
from ringbco.trace.quotas import Quotas, as_quotas
from ringbco.trace.services import Services, as_services

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from ringbco.cluster.spec import Cluster
    from ringbco.sweeps.objects import Trace
    from ringbco.trace.rate_table import RateTable

BESIDE: Final = ("fair_shares", "outages", "maintenance", "quota", "services", "tables")
"""The options that name them."""


@dataclass(frozen=True)
class Beside:
    """Those of one run; None where it has none."""

    tables: RateTable | None = None
    outages: Outages | Draw | None = None
    maintenance: Outages | None = None
    quota: Quotas | None = None
    services: Services | None = None
    fair_shares: FairShares | None = None

    @property
    def given(self) -> dict[str, RateTable | Outages | Draw | Quotas | Services | FairShares]:
        """Those that there are, by their options."""
        found = {
            "fair_shares": self.fair_shares,
            "outages": self.outages,
            "maintenance": self.maintenance,
            "quota": self.quota,
            "services": self.services,
            "tables": self.tables,
        }
        return {name: table for name, table in found.items() if table is not None}

    @property
    def options(self) -> dict[str, object]:
        """The same as `replay` takes them."""
        return {
            name: found.source if isinstance(found, Draw) else found for name, found in self.given.items()
        }


def read_beside(options: Mapping[str, Any], folder: Path, cluster: Cluster) -> Beside:
    """The tables that the options name; those that are not read yet are read.

    folder: where their names start from. Dates in them are read on the clock of the
    trace. Raises InputError for a bad file.
    """
    epoch = _epoch(options["trace"][1]) if {"outages", "maintenance", "services"} & options.keys() else None
    outages, services, servers = options.get("outages"), options.get("services"), cluster.num_servers
    if outages is not None and is_draw(outages):
        outages = as_draw(outages)
    elif outages is not None:
        outages = replace(as_outages(folder / outages, servers, epoch=epoch), source=outages)
    if services is not None:
        largest = int(cluster.server_gpus.max())
        services = replace(as_services(folder / services, largest, epoch=epoch), source=services)
    maintenance = options.get("maintenance")
    if maintenance is not None:
        windows = as_maintenance(folder / maintenance, servers, epoch=epoch)
        maintenance = replace(windows, source=maintenance)
    quota = options.get("quota")
    if quota is not None:
        quota = replace(as_quotas(folder / quota, None), source=quota)
    fair = options.get("fair_shares")
    if fair is not None:
        fair = replace(as_fair_shares(folder / fair, None), source=fair)
    return Beside(options.get("tables"), outages, maintenance, quota, services, fair)


def _epoch(trace: Trace) -> datetime | None:
    """What 0 is on the clock of a trace; None where it does not say."""
    known = read_metadata(trace.path) if trace.table is None else trace.table.metadata
    return parse_epoch(known.get(EPOCH))
