"""Tables that a run reads beside its job table: measured speeds, outages, quotas, services."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ringbco.trace.outages import Outages, as_outages
from ringbco.trace.quotas import Quotas, as_quotas
from ringbco.trace.services import Services, as_services

if TYPE_CHECKING:
    from pathlib import Path

    from ringbco.cluster.spec import Cluster
    from ringbco.trace.rate_table import RateTable


@dataclass(frozen=True)
class Beside:
    """Those of one run; None where it has none."""

    tables: RateTable | None = None
    outages: Outages | None = None
    quota: Quotas | None = None
    services: Services | None = None

    @property
    def given(self) -> dict[str, RateTable | Outages | Quotas | Services]:
        """Those that there are, by their options."""
        found = {
            "outages": self.outages,
            "quota": self.quota,
            "services": self.services,
            "tables": self.tables,
        }
        return {name: table for name, table in found.items() if table is not None}


def take_beside(options: dict[str, Any], folder: Path, cluster: Cluster) -> Beside:
    """Takes the tables out of the options, and reads those that are not read yet.

    folder: where their names start from. Raises InputError for a bad file.
    """
    outages, services = options.pop("outages", None), options.pop("services", None)
    if outages is not None:
        outages = replace(as_outages(folder / outages, cluster.num_servers), source=outages)
    if services is not None:
        services = replace(as_services(folder / services, int(cluster.server_gpus.max())), source=services)
    quota = options.pop("quota", None)
    if quota is not None:
        quota = replace(as_quotas(folder / quota, None), source=quota)
    return Beside(options.pop("tables", None), outages, quota, services)
