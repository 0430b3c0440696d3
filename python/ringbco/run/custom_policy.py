"""Custom policies: the classes to derive from, and how a name on the command line becomes an object.

Four ways to decide, the cheapest first: a column of keys (`order="column:NAME"`), `KeyPolicy`, `RankPolicy`
and `Policy`. docs/custom-policies.md shows each with an example.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ringbco import _core
from ringbco.errors import InputError, PolicyError, RingbcoError, UsageError
from ringbco.io.extensions import POLICIES, as_type, offers
from ringbco.run import custom_policy_file
from ringbco.run.registry import BUILT_IN, DECIDERS, PRESETS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    import ringbco

BARE: Final = "Simulation"
"""What the policy of a bare `Simulation` is called: its caller decides."""
_RUNNING: Final = RLock()
_DIGESTS: Final[dict[str, str]] = {}  # SHA-256 of the text of each module that was made of a file's


class Scheduler(ABC):  # noqa: B024 - its three kinds have the abstract method
    """What all custom policies have in common. Derive from `KeyPolicy`, `RankPolicy` or `Policy`."""

    clairvoyant: ClassVar[bool] = False
    """Whether the policy may read how long a job will run."""
    clairvoyant_with: ClassVar[tuple[str, ...]] = ()
    """With which of its parameters it may, where not with all."""
    resizes: ClassVar[bool] = False
    """Whether it gives elastic jobs other GPUs than they ask for."""
    refuses: ClassVar[tuple[str, ...]] = DECIDERS["outside"].refuses
    """What a run may have that the policy does not know."""


class KeyPolicy(Scheduler):
    """Orders the queue by a number that a job gets when it arrives, the least first, ties fifo."""

    @abstractmethod
    def key(self, state: ringbco.State, rows: NDArray[np.uint32]) -> ArrayLike:
        """A number for each of `rows`, which have arrived at this instant. Called once a job."""


class RankPolicy(Scheduler):
    """Ranks jobs at each pass, the least first, ties fifo. Higher priorities go first.

    preemptive: whether running jobs are ranked too, and stopped where they do not fit in the GPUs any more.
    interval: seconds between passes; None for one at every arrival and completion.
    """

    preemptive: ClassVar[bool] = False
    interval: float | None = None

    @abstractmethod
    def rank(self, state: ringbco.State, rows: NDArray[np.uint32]) -> ArrayLike:
        """A number for each of `rows`: the waiting jobs, and the running ones where `preemptive`.

        The running ones too where jobs may be evicted for others (`state.evicts`).
        """


class Policy(Scheduler):
    """Decides everything by the verbs of `state`.

    interval: seconds between decisions; None for one at every arrival and completion.
    """

    resizes: ClassVar[bool] = True
    interval: float | None = None

    @abstractmethod
    def decide(self, state: ringbco.State) -> None:
        """Starts, stops and moves jobs. Called whenever something changed or a wake is due."""


@dataclasses.dataclass(frozen=True)
class CustomPolicy:
    """A custom policy that is about to run: the object, and what run.toml says of it."""

    name: str
    scheduler: Scheduler
    described: Mapping[str, Any]


def is_custom(policy: object) -> bool:
    """Whether a policy is run as one's own: an object, a class, `module:Class`, `file.py:Class`, a name that
    an entry point or this package has for one."""
    if isinstance(policy, SerializedPolicy):
        return True
    if isinstance(policy, str):
        if ":" in policy:
            return not policy.startswith("log:")
        return policy in BUILT_IN or (policy not in PRESETS and policy in offers(POLICIES))
    return isinstance(policy, Scheduler) or (isinstance(policy, type) and issubclass(policy, Scheduler))


@contextmanager
def guarded(name: str, *, loading: bool = False) -> Iterator[None]:
    """Around code of a policy's author. Raises PolicyError for what would end the process.

    loading: for all that is raised, where no decision is asked for.
    """
    try:
        yield
    except (RingbcoError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        if isinstance(error, _core.CoreError) or (isinstance(error, Exception) and not loading):
            raise
        raise PolicyError(name, error) from error


def _label(policy: object) -> str:
    """What to call a policy before anything of it is asked: its metaclass may be anybody's too."""
    if isinstance(policy, str | SerializedPolicy):
        return policy if isinstance(policy, str) else policy.name
    return str(type.__getattribute__(policy if isinstance(policy, type) else type(policy), "__qualname__"))


def resolve(policy: object, parameters: Mapping[str, Any] | None = None) -> CustomPolicy:
    """The policy that a name, a class or an object stands for.

    parameters: values for the fields of a dataclass, as values or as text. Raises UsageError for a class
    that is not there or is no policy, and for a field that is not there; InputError for a file that cannot
    be read or has a syntax error; PolicyError for what the file or the class itself raises.
    """
    given = dict(parameters or {})
    name, found = named(policy)
    with guarded(name, loading=True):
        if isinstance(found, type):
            found = found(**_values(found, given, name))
        elif given:
            raise UsageError(
                f"option P: {', '.join(given)}: expected none beside a policy that is made already"
            )
        return CustomPolicy(name, found, _described(name, found))


def named(policy: object) -> tuple[str, Scheduler | type[Scheduler]]:
    """The name of a policy, and its class or its object: no object is made, which may take fields and time.

    Raises as `resolve`, but for fields.
    """
    with guarded(_label(policy), loading=True):
        return _resolved(policy)


def _resolved(policy: object) -> tuple[str, Scheduler | type[Scheduler]]:
    text: bytes | None = None
    if isinstance(policy, SerializedPolicy):
        text, policy = policy.text, policy.name
    name = policy if isinstance(policy, str) and (":" in policy or policy in BUILT_IN) else ""
    found: Any = _named(policy, text) if isinstance(policy, str) else policy
    kind = found if isinstance(found, type) else type(found)
    if not issubclass(kind, Scheduler) or kind in (Scheduler, KeyPolicy, RankPolicy, Policy):
        raise UsageError(
            f"option policy: {name or found!r}: expected a class derived from ringbco.KeyPolicy, RankPolicy"
            " or Policy, or an object of one"
        )
    name = name or vars(kind).get("told_as") or f"{kind.__module__}:{kind.__qualname__}"
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise UsageError(f"option policy: {name}: expected a class with the method {missing}")
    return name, found


@dataclasses.dataclass(frozen=True)
class SerializedPolicy:
    """The name of a custom policy on its way to another process, which may have no such file.

    text: of its file; None for a class that is imported there too. sha256: of its file, None without one.
    """

    name: str
    text: bytes | None
    sha256: str | None


def serialized(name: str) -> SerializedPolicy:
    """The policy of that name, to be sent. Raises as `resolve` does."""
    place = name.rpartition(":")[0]
    if place.endswith(".py"):
        text = custom_policy_file.text(Path(place))
        return SerializedPolicy(name, text, hashlib.sha256(text).hexdigest())
    kind = class_of(name)
    return SerializedPolicy(name, None, None if name in BUILT_IN else _sha256(kind))


def class_of(policy: object) -> type[Scheduler]:
    """The class of a policy. Raises as `named` does."""
    found = named(policy)[1]
    return found if isinstance(found, type) else type(found)


def check_fields(kind: type[Scheduler], name: str) -> None:
    """Raises UsageError where no object of the class can be made without values of its fields."""
    with guarded(name, loading=True):
        _values(kind, {}, name)


def installed() -> list[tuple[str, type[Scheduler], list[str]]]:
    """(name, class, fields) of every policy in Python that this or another installed package offers."""
    found = []
    for name in (*BUILT_IN, *sorted(offers(POLICIES).keys() - BUILT_IN.keys())):
        with guarded(name, loading=True):
            kind = _named(name)
            if isinstance(kind, type) and issubclass(kind, Scheduler):
                fields: list[str] = []
                if dataclasses.is_dataclass(kind):
                    fields = [field.name for field in dataclasses.fields(kind)]
                found.append((name, kind, fields))
    return found


def _named(name: str, text: bytes | None = None) -> Any:
    """What stands at `module:Class`, `file.py:Class` or under the name of an entry point.

    text: the file's, where it has been read.
    """
    name = BUILT_IN.get(name, name)
    place, colon, _ = name.rpartition(":")
    if not colon:
        return offers(POLICIES)[name].load()
    if place.endswith(".py"):
        path = Path(place)
        return _offered(_from_text(custom_policy_file.text(path) if text is None else text, path), name)
    return _offered(_imported(place, name, text), name)


def _offered(module: ModuleType, name: str) -> Any:
    """What the module has under the name's last part."""
    place, _, attribute = name.rpartition(":")
    if not hasattr(module, attribute):
        offered = ", ".join(
            key
            for key, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, Scheduler)
            and value.__module__ == module.__name__
        )
        raise UsageError(
            f"option policy: {name}: expected a class of {place}: {offered or 'it has no policy'}"
        )
    return getattr(module, attribute)


def _imported(place: str, name: str, text: bytes | None) -> ModuleType:
    try:
        if text is None or place in sys.modules:
            return importlib.import_module(place)
        # The bytes that were read, and not what Python compiled earlier, which may be of another text.
        spec = importlib.util.find_spec(place)  # imports the packages that it is in
        if spec is not None and place not in sys.modules:
            return _run(importlib.util.module_from_spec(spec), text, Path(str(spec.origin)))
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place + ".").startswith(error.name + "."):
            raise
        raise UsageError(
            f"option policy: {name}: expected a policy's name, module:Class or file.py:Class;"
            f" there is no module {place}"
        ) from None


def _from_text(text: bytes, path: Path) -> ModuleType:
    """The module of a file's text, wherever the file is; the same text is run once."""
    module = ModuleType(f"ringbco_own_{path.stem}_{hashlib.sha256(text).hexdigest()[:12]}")
    module.__file__ = str(path)
    return _run(module, text, path)


def _run(module: ModuleType, text: bytes, path: Path) -> ModuleType:
    """The module with all that its text defines; one of that name that was run before stays as it is."""
    name = module.__name__
    try:
        code = compile(text, str(path), "exec")
    except SyntaxError as error:
        raise InputError(
            f"Python: {error.msg}", file=path, line=error.lineno, value=(error.text or "").strip()
        ) from None
    except ValueError as error:  # a null byte
        raise InputError(f"Python: {error}", file=path) from None
    with _RUNNING:  # another thread waits until the module is whole
        if name not in sys.modules:
            sys.modules[name] = module  # dataclasses look their module up there
            try:
                exec(code, vars(module))
            except BaseException:
                del sys.modules[name]
                raise
            _DIGESTS[name] = hashlib.sha256(text).hexdigest()
        return sys.modules[name]


def _values(kind: type[Scheduler], given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Values for the fields of a class, of which an object can be made. Raises UsageError."""
    fields: dict[str, dataclasses.Field[Any]] = {}
    if dataclasses.is_dataclass(kind):
        fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in given:
        if key not in fields:
            known = (
                f"one of {', '.join(fields)}" if fields else "none: the class is not a dataclass with fields"
            )
            raise UsageError(f"option P: {key}: expected {known}; policy {name}")
    values = {key: as_type(key, value, fields[key].type) for key, value in given.items()}
    needed = [
        key
        for key, field in fields.items()
        if field.init and key not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]  # fmt: skip
    if needed:
        raise UsageError(f"option P: expected a value of {', '.join(needed)}; policy {name}")
    return values


def _sha256(kind: type[Scheduler]) -> str | None:
    """Of the file that the class stands in; None for one that was made in a shell or a notebook."""
    try:
        source = inspect.getfile(kind)
        return _DIGESTS.get(kind.__module__) or hashlib.sha256(Path(source).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return None


def _described(name: str, scheduler: Scheduler) -> dict[str, Any]:
    """What run.toml says of the policy, so that the run can be understood and repeated."""
    kind = type(scheduler)
    about = (inspect.getdoc(kind) or "").strip().splitlines()
    rung = next(base.__name__ for base in (KeyPolicy, RankPolicy, Policy) if isinstance(scheduler, base))
    told: dict[str, Any] = {"kind": rung, "clairvoyant": bool(scheduler.clairvoyant)}
    if about and kind.__doc__:
        told["about"] = about[0]
    sha256 = _sha256(kind)
    if sha256 is not None and name not in BUILT_IN:  # of those the package's version says it
        told["sha256"] = sha256
    interval = getattr(scheduler, "interval", None)
    if interval is not None:
        told["interval"] = interval
    if dataclasses.is_dataclass(scheduler):
        values = {field.name: getattr(scheduler, field.name) for field in dataclasses.fields(scheduler)}
        plain = {key: value for key, value in values.items() if isinstance(value, (bool, int, float, str))}
        if plain:
            told["parameters"] = plain
    return told
