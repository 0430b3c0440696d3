"""What a sweep runs: SPEC.toml read, checked and spread out into single runs (docs/sweeps.md)."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import ringbco
from ringbco.cluster.network import NETWORK_RULES, NETWORK_UNITS
from ringbco.cluster.spec import Cluster
from ringbco.errors import ABSENT, InputError, UsageError, nearest, show_toml
from ringbco.io.digests import sha256_of
from ringbco.result.certainty import Kind
from ringbco.result.days import has_days
from ringbco.run.custom_policy import SerializedPolicy, serialized
from ringbco.run.options import PARTS, is_followed, is_log, resolve_policy
from ringbco.run.registry import BUILT_IN
from ringbco.run.seeds import SeededTable, Seeds, changes, refuse_logs, seeded_options
from ringbco.sweeps.document import FORM, RUN, NamedRuns, check_named, plain_name, read_document, varied
from ringbco.sweeps.objects import Objects, Trace, table_of_trace
from ringbco.sweeps.settings import COMMANDS, EXPECTED, Setting, command, options_of
from ringbco.sweeps.side_inputs import SideTables, digest_of, missing_files, name_of, read_side_inputs
from ringbco.sweeps.trials import Trials
from ringbco.trace.rate_table import RateTable
from ringbco.trace.side_tables import KINDS

MOST_RUNS: Final = 1_000_000
ONCE: Final = Seeds()
_SECTIONS: Final = ("command", "fresh", "base", "grid", "runs")
_OWN_KEYS: Final = ("trace", "load", "cluster", "recorded_cluster", "vc", *NETWORK_RULES)
_VC: Final = ("split", "pool")
_MEANT: Final = {"jobs": "trace", "policies": "policy", "traces": "trace", "lambda_": "lambda"}
# Options that are taken alone, and that may be refused under another policy or beside another option.
_BY_OTHERS: Final = ("order", "queue", "aging", "quantum", "measure_to")


@dataclass(frozen=True)
class Run:
    """One run: everything that decides its result.

    settings: every setting by its name in the specification, as written or by default, `None` where there is
    none (`load` as recorded, parts as the policy has them where a command knows no parts).
    custom: the policy, if it is a custom one, with its text. beside: tables read too; `options` lack them.
    draw: of the trace's jobs; None where they are as they stand there. by_day: whether the record tells what
    each day of the trace adds, for the parts of the trace.
    """

    command: str
    trace: Trace
    load: float | None
    cluster: Cluster
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    version: str
    custom: SerializedPolicy | None = None
    beside: SideTables = field(default_factory=dict)
    draw: SeededTable | None = None
    by_day: bool = False

    @cached_property
    def key(self) -> str:
        """SHA-256 of what decides the result: settings and trace by content, and ringbco's version."""
        content: dict[str, Any] = {
            "ringbco": self.version,
            "command": self.command,
            "trace": self.trace.sha256,
            "load": self.load,
            "cluster": self.cluster.to_toml(),
            "options": dict(self.options),
        }
        content["options"] |= {name: digest_of(found) for name, found in self.beside.items()}
        if self.draw is not None:
            content["draw"] = self.draw
        if self.by_day:
            content["by_day"] = True
        if self.custom is not None:
            # A custom policy is what its file says, wherever that stands.
            content["options"] |= {"policy": self.custom.name.rpartition(":")[2]}
            content["policy"] = self.custom.sha256
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Spec:
    """A checked specification: its document, its runs in order, and what [grid] and [[runs]] speak of.

    seeds: how many runs each point of it has; those runs follow each other. changed: what differs between
    them, as `Runs` has it. aim: the measure and the target that are asked for, as sweep.json keeps them for
    the page.
    """

    document: Mapping[str, Any]
    runs: tuple[Run, ...]
    varied: tuple[str, ...]
    seeds: Seeds = ONCE
    changed: tuple[str, ...] = ()
    aim: Mapping[str, Any] | None = None

    @property
    def compared(self) -> str:
        """The setting whose values are held against each other: names of runs where there are two or more."""
        return RUN if len({run.settings.get(RUN) for run in self.runs}) > 1 else "policy"


def read_spec(
    spec: str | os.PathLike[str] | Mapping[str, Any], seeds: Seeds = ONCE, runs: NamedRuns = None
) -> Spec:
    """The sweep that a TOML file, or a mapping of the same shape, asks for, with these runs beside its own.

    In a mapping a trace may be a job table or a frame, and a cluster a `Cluster`. Paths in a file are
    relative to its folder. Raises InputError naming the file and the key at fault, before anything has run:
    for unknown keys, values of a wrong type or out of range, names that no registry knows, traces and
    clusters that are not there; UsageError for seeds that it varies itself.
    """
    return spec_of(*read_document(spec, runs), seeds)


def spec_of(told: Mapping[str, Any], file: str | None, folder: Path, seeds: Seeds = ONCE) -> Spec:
    """What a document asks for, checked; errors as `read_spec`."""
    once = _Reader(file, folder).spec(told)
    seeds = seeds._replace(fresh=seeds.fresh or bool(told.get("fresh"))).checked()
    if seeds.seeds == 1:
        return once
    if "seed" in once.varied:
        raise UsageError("option seeds: the specification varies seed itself; leave one of the two out")
    if len(once.runs) * seeds.seeds > MOST_RUNS:
        raise UsageError(
            f"option seeds: {len(once.runs) * seeds.seeds:,} runs: expected at most {MOST_RUNS:,}"
        )
    refuse_logs([str(run.options.get("policy")) for run in once.runs])
    tables = {run.trace: table_of_trace(run.trace) for run in once.runs}
    for table in tables.values():
        seeds.check(table)
    # Of few days nothing is told; a load may make many of them.
    long = {trace for trace, table in tables.items() if has_days(table)}
    runs = tuple(
        _repeated(run, seeds.kind, number, by_day=run.trace in long or run.load is not None)
        for run in once.runs
        for number in range(seeds.seeds)
    )
    changed = changes(seeds, [(tables[run.trace], run.settings) for run in once.runs])
    return replace(once, runs=runs, seeds=seeds, changed=changed)


def _repeated(run: Run, kind: Kind, number: int, *, by_day: bool) -> Run:
    """The run of that number, from 0, of a point."""
    seed = run.settings["seed"]
    draw = SeededTable(kind, seed, number) if number else None
    changed = seeded_options({"seed": seed, "ties": run.settings.get("ties")}, number, seed)
    changed = {name: value for name, value in changed.items() if name in run.settings}
    options = {**run.options, **{name: value for name, value in changed.items() if name in run.options}}
    settings = {**run.settings, **changed, "draw": number or None}
    by_day = by_day and kind == "moved" and not number
    return replace(run, options=options, settings=settings, draw=draw, by_day=by_day)


class _Reader:
    """Reads one specification; its file and folder are what errors and paths refer to."""

    def __init__(self, file: str | None, folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._command = "replay"
        self._trials = Trials(self._command)
        self._traces: dict[str, Trace] = {}
        self._clusters: dict[str, Cluster] = {}
        self._objects = Objects()
        self._policies: dict[str, str] = {}  # from the root -> as written
        self._tried: set[tuple[str, str]] = set()
        self._doubtful: list[tuple[str, Any, str]] = []
        self._foreign: dict[str, str] = {}  # custom policies, and where they stand first

    def spec(self, document: Mapping[str, Any]) -> Spec:
        """The whole specification."""
        self._only(document, _SECTIONS, "")
        self._command = document.get("command", "replay")
        if self._command not in COMMANDS or command(self._command) is None:
            known = [name for name in COMMANDS if command(name)]
            raise self._error(f"one of {', '.join(known)}", "command", self._command)
        self._trials = Trials(self._command)
        if not isinstance(document.get("fresh", False), bool):
            raise self._error("true or false", "fresh", document["fresh"])
        base = self._values(self._section(document, "base"), "base")
        points = list(self._grid(document, base))
        check_named(document, self._file)
        points = self._with_names(document, points, base)
        points = [*points, *self._list(document, base)] or [(base, "base")]
        if len(points) > MOST_RUNS:
            raise self._error(f"at most {MOST_RUNS:,} runs, not {len(points):,}", "grid")
        self._settle(points)
        parts = [self._parts(values, where) for values, where in points]
        # What these files do their author decides: they are run once all else is known to be right.
        self._load()
        if self._trials.custom:
            self._settle(points)
        differing = varied(document)
        runs = tuple(self._run(values, *found) for (values, _), found in zip(points, parts, strict=True))
        return Spec(
            self._objects.document(document),
            runs,
            tuple(name for name in runs[0].settings if name in differing),
        )

    def _grid(
        self, document: Mapping[str, Any], base: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """Every combination of the grid's lists, the last key varying fastest."""
        grid = self._section(document, "grid")
        if not grid:
            return
        self._names(grid, "grid")
        axes: dict[str, list[Any]] = {}
        for name, value in grid.items():
            where = f"grid.{name}"
            if not isinstance(value, list) or not value:
                entries = [part.strip() for part in value.split(",")] if isinstance(value, str) else ["..."]
                shown = ", ".join(f'"{entry}"' if isinstance(value, str) else entry for entry in entries)
                hint = f"{name} = [{shown}], or put it under [base]"
                raise self._error("a list of at least one value", where, value, hint=hint)
            axes[plain_name(name)] = [
                self._value(plain_name(name), entry, f"{where}[{number}]")
                for number, entry in enumerate(value, start=1)
            ]
        if math.prod(map(len, axes.values())) > MOST_RUNS:
            runs = math.prod(map(len, axes.values()))
            raise self._error(f"at most {MOST_RUNS:,} runs, not {runs:,}", "grid")
        for combination in itertools.product(*axes.values()):
            yield {**base, **dict(zip(axes, combination, strict=True))}, "grid"

    def _with_names(
        self, document: Mapping[str, Any], points: list[tuple[dict[str, Any], str]], base: dict[str, Any]
    ) -> list[tuple[dict[str, Any], str]]:
        """Each of the grid's points with each of the runs that have names, if there are any."""
        runs = document.get("runs")
        if not isinstance(runs, Mapping):
            return points
        own = {name: self._values(table, f"runs.{name}") for name, table in runs.items()}
        return [
            ({**values, **settings, RUN: name}, f"runs.{name}")
            for values, _ in points or [(base, "base")]
            for name, settings in own.items()
        ]

    def _list(
        self, document: Mapping[str, Any], base: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """The runs given one by one."""
        runs = document.get("runs", [])
        if isinstance(runs, Mapping):
            return
        if not isinstance(runs, list):
            raise self._error(
                "a list of tables", "runs", hint="write [[runs]], then what is special to the run"
            )
        for number, entry in enumerate(runs, start=1):
            where = f"runs[{number}]"
            if not isinstance(entry, Mapping):
                raise self._error("a table", where, entry, hint=FORM)
            named = {RUN: entry[RUN]} if RUN in entry else {}
            settings = {name: value for name, value in entry.items() if name != RUN}
            yield {**base, **named, **self._values(settings, where)}, where

    def _section(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        section = document.get(name, {})
        if not isinstance(section, Mapping):
            raise self._error("a table", name, section, hint=f"write [{name}] on a line of its own")
        return section

    def _values(self, table: Mapping[str, Any], where: str) -> dict[str, Any]:
        self._names(table, where)
        return {
            plain_name(name): self._value(plain_name(name), value, f"{where}.{name}")
            for name, value in table.items()
        }

    def _names(self, table: Mapping[str, Any], where: str) -> None:
        """Refuses keys that are no settings, and two spellings of one."""
        known = (*_OWN_KEYS, *options_of(self._command))
        self._only({plain_name(name): name for name in table}, known, where)
        if len({plain_name(name) for name in table}) < len(table):
            raise self._error("one spelling of each key, with - or with _", where)

    def _only(self, table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        for name in table:
            if name not in known:
                near = _MEANT.get(name) if _MEANT.get(name) in known else None
                near = near or nearest(name, known)
                key = f"{where}.{name}" if where else name
                hint = f"did you mean {near}?" if near else FORM
                raise self._error(f"only the keys {', '.join(known)}", key, hint=hint)

    def _value(self, name: str, value: object, where: str) -> Any:
        """One setting's value, checked as far as can be without a trace."""
        if name == "trace":
            return self._trace(value, where)
        if name in ("cluster", "recorded_cluster"):
            return self._cluster(value, where)
        if name == "vc":
            if value not in _VC:
                raise self._error(f"one of {', '.join(_VC)}", where, value)
            return value
        if name == "load" or name in NETWORK_RULES:
            number = self._read(
                Setting(name, float, False, None, unit=NETWORK_UNITS.get(name, "")), value, where
            )
            if name == "load":
                if not 0 < number < math.inf:
                    raise self._error("a finite number > 0", where, number)
                return number
            try:
                Cluster.parse("1x1").with_network(**{name: number})
            except InputError as error:
                raise self._error(error.expected, where, number) from None
            return number
        option = options_of(self._command)[name]
        if isinstance(value, list) and not (option.many or option.several):
            raise self._error(EXPECTED[option.kind], where, value, hint="a list belongs under [grid]")
        read = self._read(option, value, where)
        if name == "policy":
            read = self._policy(read)
        for path in missing_files(name, read, self._folder):
            expected = "the path of a table, relative to the specification"
            raise self._error(expected, where, show_toml(path), hint="there is no such file")
        if name == "tables" and read is not None:
            read = replace(RateTable.read(self._folder / read), source=read)
        self._try(name, read, where)
        return read

    def _policy(self, name: str) -> str:
        """The name with the path of a policy's file from the root: workers stand elsewhere."""
        if is_followed(name) and not is_log(name):
            raise UsageError(f"option policy: {name}: a log's starts are one run; leave it out of a sweep")
        place, _, attribute = name.rpartition(":")
        if not place.endswith(".py"):
            return name
        whole = f"{os.path.abspath(self._folder / place)}:{attribute}"
        self._policies[whole] = name
        return whole

    def _read(self, option: Setting, value: object, where: str) -> Any:
        try:
            return option.read(value)
        except ValueError as error:
            raise self._error(str(error), where, show_toml(value)) from None

    def _try(self, name: str, value: Any, where: str) -> None:
        """Notes a value that the command refuses by itself; `_settle` says whether it has a place."""
        if name == "policy" and self._trials.is_foreign(value):
            self._foreign.setdefault(value, where)
        if (name, repr(value)) not in self._tried:
            self._tried.add((name, repr(value)))
            if name in _BY_OTHERS or self._trials.refusal(name, {name: value}) is not None:
                self._doubtful.append((name, value, where))

    def _settle(self, points: Sequence[tuple[Mapping[str, Any], str]]) -> None:
        """Refuses a value that the command takes in none of the runs that have it.

        One that it takes in some (`admission` with one policy of several) is left out of the others.
        """
        known = options_of(self._command)
        for name, value, where in self._doubtful:
            chosen = (values for values, _ in points if values.get(name) == value)
            given = {
                repr(options): options for options in ({k: v[k] for k in known if k in v} for v in chosen)
            }
            error = None
            for options in given.values():
                error = self._trials.refusal(name, options)
                if error is None:
                    break
            if error is not None:
                raise self._refused(name, value, where, error)

    def _load(self) -> None:
        """Loads the custom policies. Raises InputError for one that is not there or is none."""
        for policy, where in self._foreign.items():
            try:
                self._trials.load(policy)
            except UsageError as error:
                raise self._refused("policy", self._policies.get(policy, policy), where, error) from None

    def _refused(self, name: str, value: object, where: str, error: UsageError) -> InputError:
        """What the command says of an option, as the specification's error."""
        said = str(error).removeprefix(f"option {name.replace('_', '-')}: ")
        _, found, expected = said.partition(": expected ")
        return self._error(expected if found else said, where, value)

    def _trace(self, value: object, where: str) -> tuple[str, Trace]:
        given = self._objects.table(value)
        if given is not None:
            table, sha256 = given
            return table.source, Trace("", sha256, table.source, table)
        if not isinstance(value, (str, os.PathLike)):
            raise self._error("the path of a job table, in quotes", where, value)
        text = os.fspath(value)
        if text not in self._traces:
            path = self._folder / text
            try:
                digest = sha256_of(path)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise self._error(
                    "the path of a job table, relative to the specification", where, text, hint=reason
                ) from None
            self._traces[text] = Trace(os.path.abspath(path), digest, text)
        return text, self._traces[text]

    def _cluster(self, value: object, where: str) -> Cluster:
        if isinstance(value, Cluster):
            return self._objects.cluster(value)
        if not isinstance(value, str):
            raise self._error("SxG such as 32x8, the path of a TOML file, or preset:NAME", where, value)
        if value not in self._clusters:
            path = self._folder / value
            try:
                cluster = Cluster.parse(path if os.path.isfile(path) else value)
            except InputError as error:
                if error.file is not None:
                    raise  # it speaks of the cluster's own file
                raise self._error(error.expected, where, value, hint=error.hint) from None
            self._clusters[value] = self._objects.cluster(replace(cluster, name=value))
        return self._clusters[value]

    def _parts(self, values: Mapping[str, Any], where: str) -> tuple[Cluster, SideTables]:
        """The cluster of a run, and the tables beside its trace: what can be wrong under any policy."""
        for name, what, example in (
            ("trace", "a job table", "jobs.parquet"),
            ("cluster", "a cluster", "32x8"),
        ):
            if name not in values:
                hint = f'write {name} = "{example}" under [base]'
                raise self._error(f"{what}; there is none", f"{where}.{name}", hint=hint)
        network = {name: values[name] for name in NETWORK_RULES if name in values}
        cluster: Cluster = values["cluster"].with_network(**network)
        cluster = cluster.with_recorded(values.get("recorded_cluster"))
        if values.get("vc") == "pool":
            cluster = cluster.pooled()
        return cluster, read_side_inputs(values, self._folder, cluster)

    def _run(self, values: Mapping[str, Any], cluster: Cluster, beside: SideTables) -> Run:
        text, trace = values["trace"]
        known = options_of(self._command)
        defaults = {name: option.default for name, option in known.items()}
        given = {name: values[name] for name in known if name in values}
        options = {
            name: value
            for name, value in (defaults | self._trials.fitted(given)).items()
            if name not in KINDS
        }
        written = defaults | given
        if self._command == "replay":
            policy = resolve_policy(
                self._trials.known(options["policy"]), **{name: options[name] for name in PARTS}
            )
            in_effect = {name: getattr(policy, name) for name in PARTS}
            if str(options["order"]).startswith("column:"):
                in_effect["order"] = options["order"]
            options |= in_effect
            written |= in_effect
        settings = {
            **{name: values[name] for name in (RUN,) if name in values},
            "command": self._command,
            "trace": text,
            "load": values.get("load"),
            "cluster": cluster.name,
            "recorded_cluster": cluster.recorded_on.name,
            "vc": values.get("vc", _VC[0]),
            "servers": cluster.num_servers,
            "gpus": cluster.num_gpus,
            **{name: getattr(cluster.network, name) for name in NETWORK_RULES},
            **written,
        }
        name = str(options.get("policy"))
        settings["policy"] = self._policies.get(name, settings["policy"])
        settings |= {name: name_of(found) for name, found in beside.items()}
        mine = serialized(name) if name in BUILT_IN else self._trials.custom.get(name)
        load, version = values.get("load"), ringbco.__version__
        return Run(self._command, trace, load, cluster, options, settings, version, mine, beside)

    def _error(
        self, expected: str, key: str, value: object = ABSENT, *, hint: str | None = None
    ) -> InputError:
        return InputError(expected, file=self._file, key=key, value=value, hint=hint)
