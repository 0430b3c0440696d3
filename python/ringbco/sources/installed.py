"""Sources of other installed packages: functions that read files, under the entry point `ringbco.sources`.

    def read(files: list[Path], *, name: type = default, ...) -> table, or Trace

A parameter by keyword is an option of the source, given as -P name=value. A table is one of polars, pandas,
pyarrow or another library that speaks Arrow; a `Trace` has an account of its rows, the epoch and the servers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any

import polars as pl

from ringbco.errors import InputError, RingbcoError, SourceError, UsageError
from ringbco.io.extensions import SOURCES, as_type, offers
from ringbco.io.frames import ArrowTable, as_polars
from ringbco.sources.account import Account
from ringbco.sources.opening import Opened
from ringbco.sources.parsing import iso
from ringbco.sources.source import Inputs, Options, Source, Trace


class _AnyFile:
    role = "files"
    what = "the files of the trace"

    def recognises(self, head: str) -> bool:
        """Nothing is known of the files of a foreign source."""
        return False

    def likeness(self, head: str) -> float:
        """Nor how near they come."""
        return 0.0

    def refuse_missing(self, opened: Opened) -> None:
        """Nor what they lack."""


def of_package(point: EntryPoint) -> str:
    """What offers an entry point, for a message."""
    package = point.dist
    return point.value if package is None else f"package {package.name} {package.version} ({point.value})"


def installed(name: str) -> Source | None:
    """The source that an installed package offers under that name, or None.

    Raises SourceError for one that cannot be loaded, UsageError for what is no function of the files.
    """
    point = offers(SOURCES).get(name)
    if point is None:
        return None
    with _guarded(name):
        function = point.load()
    if not callable(function) or inspect.isclass(function):
        raise UsageError(f"source {name}: {of_package(point)}: expected a function of a list of files")
    about = (inspect.getdoc(function) or "").partition("\n")[0]

    def read(inputs: Inputs, options: Options) -> Trace:
        return _read(point, function, inputs, options)

    return Source(
        name=name,
        title=about or f"{name}: {of_package(point)}",
        url="",
        licence="that of your files",
        citation="",
        shapes=(_AnyFile(),),
        needs=(_AnyFile.role,),
        read=read,
        options=frozenset({"P"}),
        several=True,
        opens=False,
    )


@contextmanager
def _guarded(name: str, function: Callable[..., Any] | None = None) -> Iterator[None]:
    """Around code of another package, whose exceptions become one line with their place."""
    try:
        yield
    except (RingbcoError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        code = getattr(function, "__code__", None)
        raise SourceError(name, error, getattr(code, "co_filename", None)) from error


def _read(point: EntryPoint, function: Callable[..., Any], inputs: Inputs, options: Options) -> Trace:
    name = point.name
    values = _values(name, function, options.parameters)
    files = [opened.path for opened, _ in inputs.all(_AnyFile.role)]
    with _guarded(name, function):
        trace = function(files, **values)
        if isinstance(trace, pl.LazyFrame):
            trace = trace.collect()
    if not isinstance(trace, Trace):
        if not isinstance(trace, ArrowTable):
            told = f"{name}: expected a table or a Trace from {point.value}, not {type(trace).__name__}"
            raise InputError(f"source {told}")
        frame = as_polars(trace)
        account = Account("rows", frame.height, frame.height, ())
        trace = Trace(frame, account, iso(0.0), "a placeholder: the source does not say which moment 0 is")
    if options.strict:
        _refuse_first(trace.account, inputs[_AnyFile.role].shown)
    return trace


def _refuse_first(account: Account, file: str) -> None:
    """Raise InputError for the first row that a source dropped or changed (--strict)."""
    met = [entry for entry in account.entries if entry.kind in ("dropped", "changed") and entry.rows]
    if met:
        first = min(met, key=lambda entry: entry.line or 0)
        raise InputError("every row as it is (--strict)", file=file, line=first.line, hint=first.reason)


def _values(name: str, function: Callable[..., Any], given: Any) -> dict[str, Any]:
    """The options of a source as its function takes them. Raises UsageError."""
    with _guarded(name):
        signature = inspect.signature(function, eval_str=True)
    own = {key: each for key, each in signature.parameters.items() if each.kind is each.KEYWORD_ONLY}
    for key in given:
        if key not in own:
            expected = f"one of {', '.join(own)}" if own else "none: it has no options"
            raise UsageError(f"option P: {key}: expected {expected}; source {name}")
    needed = [key for key, each in own.items() if each.default is each.empty and key not in given]
    if needed:
        raise UsageError(f"option P: expected a value of {', '.join(needed)}; source {name}")
    return {key: as_type(key, value, own[key].annotation) for key, value in given.items()}
