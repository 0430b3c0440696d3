"""The public names, for type checkers; `__init__.py` says where each is at home."""

from typing import Any

from ringbco import errors as errors
from ringbco.audits import audit as audit
from ringbco.cluster.network import Network as Network
from ringbco.cluster.spec import Cluster as Cluster
from ringbco.errors import DecisionError as DecisionError
from ringbco.reports import report as report
from ringbco.reports.player import play as play
from ringbco.reports.plots import Plots
from ringbco.reports.timeline import timeline as timeline
from ringbco.result.bound import Bound as Bound
from ringbco.result.comparison import Comparison as Comparison
from ringbco.result.diff import Diff as Diff
from ringbco.result.outcome import Outcome as Outcome
from ringbco.result.why import Story as Story
from ringbco.run.bound import bound as bound
from ringbco.run.compare import compare as compare
from ringbco.run.custom_policy import KeyPolicy as KeyPolicy
from ringbco.run.custom_policy import Policy as Policy
from ringbco.run.custom_policy import RankPolicy as RankPolicy
from ringbco.run.outage_draws import outages as outages
from ringbco.run.pack import Packing as Packing
from ringbco.run.pack import pack as pack
from ringbco.run.plan import plan as plan
from ringbco.run.replay import replay as replay
from ringbco.run.simulation import Simulation as Simulation
from ringbco.run.state import State as State
from ringbco.sources.conversion import convert as convert
from ringbco.study.inspection import inspect as inspect
from ringbco.study.profile import profile as profile
from ringbco.study.services import services as services
from ringbco.sweeps.run import sweep as sweep
from ringbco.trace.jobs import (
    JobTable as JobTable,
)
from ringbco.trace.jobs import (
    from_frame as from_frame,
)
from ringbco.trace.jobs import (
    read_jobs as read_jobs,
)
from ringbco.trace.jobs import (
    write_jobs as write_jobs,
)
from ringbco.trace.outages import Outages as Outages
from ringbco.trace.requests import Requests as Requests
from ringbco.trace.services import Services as Services
from ringbco.trace.synthetic import generate as generate
from ringbco.trace.synthetic_requests import generate_requests as generate_requests

__version__: str
_Plots = Plots
_ABOVE: dict[str, tuple[str, str]]

def _above(name: str, *given: object) -> Any: ...
