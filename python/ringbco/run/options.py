"""What a run may be asked to do: policies and their parts, options, and the checks on them."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.result.window import OPTIONS as WINDOW
from ringbco.result.window import EmptyWindowError
from ringbco.run.option import Option, Preset
from ringbco.run.registry import BUILT_IN, DECIDERS, PRESETS, REPLAY
from ringbco.trace import ties as ties_
from ringbco.trace.clock import seconds_at
from ringbco.trace.epoch import epoch_of
from ringbco.trace.other_names import nearest
from ringbco.trace.recorded import AS_RECORDED
from ringbco.trace.searches import Search
from ringbco.trace.side_tables import KINDS
from ringbco.units import is_date, moment, seconds_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.run.custom_policy import Scheduler
    from ringbco.trace.jobs import JobTable

PARTS: Final = ("order", "placement", "queue")
"""The options that replace a part of the policy."""
MOST_SEED: Final = 2**64 - 1
MOST_THREADS: Final = 1024
MOST_SAMPLES: Final = 10_000_000
COLUMN: Final = "column:"
"""With which the value of an option begins that is a column of the job table."""
BY_JOB: Final = ("predict", "estimate")
"""Options of which a column may have the run times."""
_LONGEST: Final = 60
_DECIDES: Final = {
    "order": "{} ranks all jobs itself",
    "placement": "{} places jobs where the log says",
    "queue": "{} ranks all jobs itself",
}
_TEXTS: Final[dict[str, Callable[[str], object]]] = {"ties": ties_.check, "search": Search.parse}


@dataclass(frozen=True)
class Policy:
    """A preset's name and the parts it stands for, after overrides."""

    name: str
    order: str
    placement: str
    queue: str
    preemption: str = "none"

    def is_(self, what: str) -> bool:
        """Whether that is what a policy that preempts so says of itself."""
        told = PRESETS.get(self.preemption) or DECIDERS.get(self.preemption)
        return told is not None and what in told.is_


def checked(
    given: Mapping[str, Any], table: Mapping[str, Option] = REPLAY, *, command: str = "replay"
) -> dict[str, Any]:
    """Every option of the table by its parameter's name: as `given`, or by default.

    All are plain Python values, whatever was given. Raises UsageError for a value that an option may not
    have, TypeError for an option that is not in the table.
    """
    for name in given:
        if name not in table:
            raise TypeError(f"{command}() got an unexpected keyword argument {name!r}")
    values = {name: check(option, given.get(name, option.default)) for name, option in table.items()}
    # A plan has the slot clock only.
    if values.get("clock") == "continuous" and values["slot"] != table["slot"].default:
        expected = "it together with clock slot; the continuous clock has no slots"
        raise refusal("slot", values["slot"], expected)
    ends = [values.get(name) for name in WINDOW]
    # A share is held against a time once it is known of which span it is, a date once the epoch is.
    alike = len({isinstance(value, float) and value <= 1 for value in ends}) == 1 and not any(
        isinstance(value, str) and is_date(value) for value in ends
    )
    if not alike:
        return values
    since, until = (-math.inf if value is None else seconds_of("", value) for value in ends)
    if None not in ends and since >= until:
        raise refusal("measure-to", ends[1], f"a window's end after measure-from, {ends[0]}")
    return values


def on_clock(values: Mapping[str, Any], table: JobTable) -> dict[str, Any]:
    """The options with times for the dates of a window. Raises EmptyWindowError for what is no date here."""
    dates: dict[str, Any] = {
        name: value for name in WINDOW if isinstance(value := values.get(name), str) and is_date(value)
    }
    epoch = epoch_of(table) if dates else None
    for name, value in dates.items():
        try:
            # What is before the epoch is before all submissions, as 0 is.
            dates[name] = moment(f"{max(seconds_at(epoch, value), 0.0)!r}s")
        except ValueError as error:
            expected = f"a share or {error}" if epoch is None else str(error)
            raise EmptyWindowError(str(refusal(REPLAY[name].typed, value, expected))) from None
    return {**values, **dates}


def described(policy: Policy, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a replay as run.toml and the engine have them, parts of the policy in effect."""
    told = {
        option.name: values[name] for name, option in REPLAY.items() if name != "policy" and name not in KINDS
    }
    return {
        **told,
        **{part: getattr(policy, part) for part in PARTS},
        "thresholds": list(values["thresholds"]),
    }


_SEVERAL: Final = 2


@cache
def _standard(option: Option) -> Any:
    """The default as a plain Python value: what runs are asked for most."""
    return _plain(option, option.default)


def check(option: Option, value: Any) -> Any:
    """The value as a plain Python value; UsageError unless the option may have it."""
    return _standard(option) if value is option.default else _plain(option, value)


def _plain(option: Option, value: Any) -> Any:
    name = option.typed
    value = _single(option, value)
    if option.optional and (
        value is None or (option.word and isinstance(value, str) and value == option.word)
    ):
        return None
    match option.kind:
        case "name" if not _is_open(option, value):
            check_name(name, value, _names(option))
        case "ties" | "search":
            if not isinstance(value, str):
                raise refusal(name, value, option.expected)
            _TEXTS[option.kind](value)
        case "file" | "files":
            if not KINDS[option.name].takes(value):
                raise refusal(name, value, option.expected)
        case "flag":
            return flag(name, value)
        case "integer":
            return integer(name, value, int(option.least), int(option.most))
        case "number":
            if isinstance(value, str) and option.unit == "s":
                value = seconds_of(name, value)
            return number(
                name,
                value,
                option.expected,
                least=option.least,
                most=option.most,
                above=option.above,
                endless=option.endless,
            )
        case "numbers" | "moment":
            return (_ascending if option.kind == "numbers" else _moment)(option, value)
    return value


def _single(option: Option, value: Any) -> Any:
    """The file where a list of files has one, None where it has none; else the value."""
    few = option.kind == "files" and isinstance(value, list | tuple) and len(value) < _SEVERAL
    return (value[0] if value else None) if few else value


def read_numbers(option: Option, text: str) -> tuple[float, ...]:
    """Numbers separated by commas. Raises UsageError where they are no numbers."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise refusal(option.typed, text, "numbers separated by commas") from None


def _ascending(option: Option, value: Any) -> tuple[float, ...]:
    """The numbers as floats; UsageError unless they are numbers > 0 in ascending order."""
    if isinstance(value, str):
        value = read_numbers(option, value)
    known = isinstance(value, (Sequence, np.ndarray))
    steps = list(value) if known else []
    good = known and all(isinstance(step, Real) and not isinstance(step, bool) for step in steps)
    if not good:
        raise refusal(option.typed, value, f"a list of {option.expected}")
    if not all(a < b <= sys.float_info.max for a, b in pairwise([option.least, *steps])):
        shown = ",".join(map(str, steps))
        raise UsageError(f"option {option.typed}: {shown}: expected {option.expected}")
    return tuple(map(float, steps))


def _moment(option: Option, value: Any) -> float | str:
    """A share or a time as `units.moment` has it; UsageError for anything else."""
    try:
        return moment(value)
    except ValueError as error:
        dated = isinstance(value, str) and is_date(value)
        raise refusal(option.typed, value, str(error) if dated else option.expected) from None


def _names(option: Option) -> Sequence[str]:
    """The names that an option may have."""
    return (*option.names, *BUILT_IN) if option is REPLAY["policy"] else option.names


def _is_open(option: Option, value: object) -> bool:
    """Whether a value is right though it is none of the names: log:FILE, file.py:Class, column:NAME."""
    if option is REPLAY["order"]:
        return _is_column(value)
    if option.name in BY_JOB:
        return names_column(option.typed, value)
    return option is REPLAY["policy"] and isinstance(value, str) and ":" in value


def _is_column(order: object) -> bool:
    """Whether an order is a column of the job table, column:NAME, or an array of keys."""
    if isinstance(order, (list, pl.Series)):
        return np.asarray(order).dtype.kind in "iufb"
    return isinstance(order, np.ndarray) or names_column("order", order)


def names_column(option: str, value: object) -> bool:
    """Whether the value of an option is a column of the job table, column:NAME."""
    if isinstance(value, str) and value in ("column", COLUMN):
        raise refusal(option, value, "column:NAME, a column of the job table with numbers")
    return isinstance(value, str) and value.startswith(COLUMN)


def numbers_named(value: str, table: JobTable) -> NDArray[np.float64]:
    """The column of the job table that column:NAME names, NaN for an empty cell.

    Raises InputError for a column that is not there or has other values than numbers.
    """
    name = value.removeprefix(COLUMN)
    if name not in table.frame.columns:
        has = ", ".join(table.frame.columns)
        raise InputError(f"a column with numbers; the table has {has}", file=table.source, column=name)
    column = table.frame[name]
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputError("a column with numbers", file=table.source, column=name, value=str(column.dtype))
    return column.cast(pl.Float64).fill_null(math.nan).to_numpy()


def run_times_named(value: object, table: JobTable) -> NDArray[np.float64] | None:
    """Run times of whole jobs that an option reads from a column, s; NaN or <= 0 for none.

    None for an option that names no column. Raises InputError as `numbers_named`, and for an infinite one.
    """
    if not (isinstance(value, str) and value.startswith(COLUMN)):
        return None
    seconds = numbers_named(value, table)
    wrong = np.flatnonzero(np.isinf(seconds))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            "a finite number of seconds, <= 0 or empty for none",
            file=table.source, row=row + 1, column=value.removeprefix(COLUMN), value=float(seconds[row]),
            hint="give the predicted run time of the whole job in seconds, or leave the cell empty",
        )  # fmt: skip
    return seconds


def order_column(order: object, table: JobTable) -> NDArray[np.float64] | None:
    """The keys of an order that is a column or an array, the least first; None for other orders.

    Raises InputError for a column that is not there or has a value that is no number, UsageError for an
    array of another length.
    """
    if not _is_column(order):
        return None
    if not isinstance(order, str):
        order = np.asarray(order)
        if order.shape != (table.num_jobs,) or order.dtype.kind not in "iufb":
            shape = f"an array of shape {order.shape} and type {order.dtype}"
            raise UsageError(f"option order: {shape}: expected {table.num_jobs} numbers, one a job")
        keys = order.astype(np.float64)
        name = "order"
    else:
        name, keys = order.removeprefix(COLUMN), numbers_named(order, table)
    wrong = np.flatnonzero(np.isnan(keys))
    if wrong.size:
        row = int(wrong[0]) + 1
        raise InputError(
            "a number: the least goes first", file=table.source, row=row, column=name, value=math.nan
        )
    return keys


def is_log(policy: object) -> bool:
    """Whether a policy is a decision log: log:FILE."""
    return isinstance(policy, str) and policy.startswith("log:")


def is_followed(policy: object) -> bool:
    """Whether a policy repeats what a log says of these very jobs: log:FILE, or the recorded starts."""
    preset = PRESETS.get(policy) if isinstance(policy, str) else None
    return is_log(policy) or (preset is not None and AS_RECORDED in preset.is_)


def own_parts(policy: Policy | Preset) -> tuple[str, ...]:
    """The parts that no option replaces: order and queue of a ranking; all under the recorded starts."""
    preset = PRESETS.get(policy.name)
    if preset is not None and AS_RECORDED in preset.is_:
        return PARTS
    return ("order", "queue") if policy.preemption != "none" else ()


def policies() -> list[Policy]:
    """Every preset, with the order, the placement and the queue discipline that it stands for."""
    return [Policy(*preset[:5]) for preset in PRESETS.values()]


def resolve_policy(
    policy: object, *, order: str | None = None, placement: str | None = None, queue: str | None = None
) -> Policy:
    """The preset of that name with parts replaced; UsageError if a name is in no registry."""
    from ringbco.run.custom_policy import is_custom, named

    if is_custom(policy):
        return _custom_policy(*named(policy), order, placement, queue)
    if not isinstance(policy, str):
        raise refusal(
            "policy", policy, "a policy's name, or a class or an object derived from ringbco.Policy"
        )
    if policy.endswith(".py"):
        raise refusal("policy", policy, f"the class's name too: {policy}:Class")
    check(REPLAY["policy"], policy)
    if is_log(policy):
        log = Policy(policy, *DECIDERS["log"][1:5])
        if any(value not in (None, own) for value, own in ((order, log.order), (queue, log.queue))):
            raise refusal("policy", policy, "no order or queue beside it: a log says who runs where")
        check(REPLAY["placement"], placement)
        # It decides nothing, but says of a waiting job whether idle GPUs were too scattered for it.
        return replace(log, placement=placement or log.placement)
    preset = PRESETS[policy]
    for option, value in (("order", order), ("placement", placement), ("queue", queue)):
        check(REPLAY[option], value)
    given = {"order": order, "placement": placement, "queue": queue}
    for option in own_parts(preset):
        if given[option] not in (None, getattr(preset, option)):
            raise UsageError(f"option {option}: {_DECIDES[option].format(policy)}; leave the option out")
    order = "column" if _is_column(order) else order
    parts = (order or preset.order, placement or preset.placement, queue or preset.queue)
    return Policy(preset.name, *parts, preset.preemption)


def _custom_policy(
    name: str,
    policy: Scheduler | type[Scheduler],
    order: str | None,
    placement: str | None,
    queue: str | None,
) -> Policy:
    """The parts of a custom policy: by default placement consolidate, discipline strict."""
    from ringbco.run.custom_policy import KeyPolicy

    for option, value in (("placement", placement), ("queue", queue)):
        check(REPLAY[option], value)
    keyed = issubclass(policy if isinstance(policy, type) else type(policy), KeyPolicy)
    mine = "column" if keyed else "fifo"
    # What run.toml says of such a run may be said again.
    if not isinstance(order, str | None) or order not in (None, mine):
        raise UsageError(f"option order: {name} orders the jobs itself; leave the option out")
    if queue not in (None, "strict") and not keyed:
        raise UsageError(f"option queue: {name} decides itself who starts; leave the option out")
    parts = (mine, placement or "consolidate", queue or "strict")
    return Policy(name, *parts, "none" if keyed else "outside")


def as_cluster(cluster: object, recorded: object = None) -> Cluster:
    """A `Cluster`, or what `Cluster.parse` makes of a text or a path. UsageError for anything else.

    recorded: the same, for the cluster on which the trace was recorded; None leaves the cluster's own.
    """
    if recorded is not None:
        return as_cluster(cluster).with_recorded(as_cluster(recorded))
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, (str, os.PathLike)):
        return Cluster.parse(cluster)
    raise refusal("cluster", cluster, 'a Cluster, or SxG such as "32x8", a TOML file or preset:NAME')


def check_name(option: str, value: object, known: Sequence[str]) -> None:
    """Raises UsageError, with the name that was probably meant, unless `value` is among `known`."""
    if not isinstance(value, str) or value not in known:
        several = _several(value, known) if isinstance(value, str) else []
        if several:
            raise refusal(option, value, _repeated(option, several))
        near = nearest(option, value, known) if isinstance(value, str) else None
        # What is probably meant goes before the list, which may be long.
        meant = f"a name that is known; did you mean {near}? Else one of" if near else "one of"
        raise refusal(option, value, f"{meant} {', '.join(known)}")


def _several(text: str, known: Sequence[str]) -> list[str]:
    """The names in a text of several, each as it is known; none where it is no such text."""
    parts = [part for part in re.split(r"[\s,;+|/&]+", text) if part]
    return [part for part in parts if part in known] if parts[1:] and set(parts) <= set(known) else []


def _repeated(option: str, names: Sequence[str]) -> str:
    """What is expected instead of several names in one text."""
    one = [
        f"--{option} {name}" if option == "policy" else f'--run "fifo --{option} {name}"' for name in names
    ]
    given = f"[{', '.join(map(json.dumps, names))}]"
    return (
        f"one name; `ringbco compare` takes several, {' '.join(one)}, and a sweep a list,"
        f" {option.replace('-', '_')} = {given} under [grid]"
    )


def integer(option: str, value: object, least: int, most: int) -> int:
    """The value as an int, numpy's integers too; UsageError unless it is one from `least` to `most`."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or not least <= int(value) <= most:  # type: ignore[call-overload]
        raise refusal(option, value, f"an integer from {least} to {most}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def number(
    option: str,
    value: object,
    expected: str,
    *,
    least: float,
    most: float = math.inf,
    above: bool = False,
    endless: bool = False,
) -> float:
    """The value as a float, numpy's numbers too.

    UsageError with what was `expected` unless it is a number from `least` (or, with `above`, greater than
    it) to `most`; infinity only where it is `endless`. A bool is no number.
    """
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:  # an int beyond every float
        found = math.nan
    if (
        not (least < found if above else least <= found)
        or found > most
        or (math.isinf(found) and not endless)
    ):
        raise refusal(option, value, expected)
    return found


def flag(option: str, value: object) -> bool:
    """True or False, numpy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal(option, value, "True or False")
    return bool(value)


def check_callback(value: object, name: str = "progress", given: str = "(done, in all)") -> None:
    """Raises UsageError unless `value` can be called with what is told."""
    if value is not None and not callable(value):
        raise refusal(name, value, f"a function of {given}, or None")


def refusal(option: str, value: object, expected: str) -> UsageError:
    """What to raise for an option's value: the option, the value, what was expected."""
    text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return UsageError(f"option {option}: {text}: expected {expected}")
