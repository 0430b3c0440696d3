"""`compare --run small="sjf-bco --kappa 4"`: a policy and options of `replay` as one text, with a name."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_EXAMPLE: Final = 'small="sjf-bco --kappa 4"'

# What a comparison has once, whatever it runs.
_NOT_OF_A_RUN: Final = {
    **dict.fromkeys(("jobs", "recorded_cluster"), "every run has the same jobs"),
    **dict.fromkeys(("out", "force", "as_json", "quiet", "again", "units"), "it is no setting of a run"),
    "policy": "the policy comes first, without --policy",
}


def parse_runs(
    texts: list[str],
    cluster: str,
    network: Mapping[str, float | str | None],
    vc: str,
    recorded: str | None,
) -> dict[str, dict[str, Any]]:
    """What each text asks for, as `ringbco.compare` takes it, under its name or else the text itself.

    cluster, network, vc, recorded: what holds where a text says nothing else. Raises UsageError naming the
    text at fault.
    """
    from ringbco.cli.inputs import parse_cluster
    from ringbco.cluster.network import NETWORK_RULES
    from ringbco.errors import InputError, UsageError

    runs: dict[str, dict[str, Any]] = {}
    for label, own in named_runs(texts).items():
        of_cluster = {name: own.pop(name) for name in ("cluster", "vc", *NETWORK_RULES) if name in own}
        if of_cluster:
            links = {name: of_cluster.get(name, value) for name, value in network.items()}
            try:
                own["cluster"] = parse_cluster(
                    of_cluster.get("cluster", cluster), links, of_cluster.get("vc", vc), recorded
                )
            except (InputError, UsageError) as error:
                raise UsageError(f"option run: {label!r}: {error}") from None
        runs[label] = own
    return runs


def named_runs(texts: list[str]) -> dict[str, dict[str, Any]]:
    """The policy and the options in each text, by the names of `replay`'s parameters, under its name.

    A text without a name is its own. Raises UsageError naming the text at fault, also for a name given twice.
    """
    from ringbco.errors import UsageError

    runs: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, rest = _split(text)
        label = text if name is None else name
        if label in runs:
            raise UsageError(f"option run: {label!r}: expected each {'run' if name is None else 'name'} once")
        runs[label] = _parsed(rest, text)
    return runs


def settings_of(texts: list[str], folder: Path) -> dict[str, dict[str, Any]]:
    """What each text asks for, as a sweep's specification in that folder has it, under its name.

    Raises UsageError naming the text at fault, also for what no sweep sets.
    """
    from ringbco.cluster.network import NETWORK_RULES
    from ringbco.errors import UsageError
    from ringbco.run.options import read_numbers
    from ringbco.run.registry import REPLAY
    from ringbco.sweeps.settings import options_of

    known = {setting.parameter: name for name, setting in options_of("replay").items()}
    known |= {name: name for name in ("cluster", "vc", *NETWORK_RULES)}
    found: dict[str, dict[str, Any]] = {}
    for label, own in named_runs(texts).items():
        if "parameters" in own:
            raise UsageError(f"option run: {label!r}: -P: leave it out, a sweep sets no fields of a policy")
        for name in own:
            if name not in known:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"option run: {label!r}: {flag}: leave it out, a sweep keeps no such table")
        settings = {known[name]: _from(folder, name, value) for name, value in own.items()}
        if "thresholds" in settings:
            settings["thresholds"] = list(read_numbers(REPLAY["thresholds"], settings["thresholds"]))
        found[label] = settings
    return found


def _from(folder: Path, name: str, value: Any) -> Any:
    """A setting's value; a path, which starts where the command does, as it is from the folder."""
    from ringbco.run.outage_draws import is_draw
    from ringbco.trace.side_tables import KINDS

    if name == "policy":
        place, _, attribute = value.rpartition(":")
        return f"{_relative(place, folder)}:{attribute}" if place.endswith(".py") else value
    if isinstance(value, list | tuple):
        return [_from(folder, name, each) for each in value]
    is_path = name in KINDS and value != "none" and not is_draw(value)
    if is_path or (name in ("cluster", "tables") and Path(value).is_file()):
        return _relative(value, folder)
    return value


def _relative(path: str, folder: Path) -> str:
    return path if os.path.isabs(path) else os.path.relpath(path, folder)


def _split(text: str) -> tuple[str | None, str]:
    """The name before the first `=` of the first word, and what follows; None where there is none.

    In later words an `=` belongs to an option's value. So it may to the path of a policy or a log in the
    first one: that is no name if the file is there, or if the word is in quotes. Raises UsageError where it
    could be either, and for a name that is empty, has spaces or names nothing.
    """
    from ringbco.errors import UsageError

    def refusal(reason: str) -> UsageError:
        return UsageError(f"option run: {text!r}: {reason}")

    word, *others = text.split() or [""]
    name, equals, rest = word.partition("=")
    if not equals:
        # Only options follow a policy.
        if others and not word.startswith("-") and not others[0].startswith("-") and "=" in others[0]:
            raise refusal(f"expected a name without spaces, or options with --, such as {_EXAMPLE}")
        return None, text
    if word.startswith(("-", "log:", "'", '"')):
        return None, text
    if _is_file(word):
        if _is_file(rest):
            raise refusal(
                f"expected a name that leaves no doubt: {word} and {rest} are files of policies both;"
                f" write NAME={word} or another name than {name!r}"
            )
        return None, text
    if not name:
        raise refusal(f"expected a name before the =, such as {_EXAMPLE}")
    after = text.lstrip()[len(name) + 1 :]
    if not after.strip():
        raise refusal(f"expected a policy after the name, such as {_EXAMPLE}")
    return name, after


def _is_file(policy: str) -> bool:
    """Whether that is a class in a file of Python that is there."""
    place, _, attribute = policy.rpartition(":")
    return bool(attribute) and place.endswith(".py") and Path(place).is_file()


def _parsed(text: str, whole: str) -> dict[str, Any]:
    """The policy and the options that are in the text. whole: as it was given, for errors."""
    from ringbco.cli import load
    from ringbco.cli.inputs import fields
    from ringbco.errors import RingbcoError, UsageError
    from ringbco.run.options import resolve_policy

    def refusal(reason: str) -> UsageError:
        return UsageError(f"option run: {whole!r}: {reason}")

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise refusal(f"expected quotes in pairs ({error})") from None
    if not words or words[0].startswith("-"):
        raise refusal('expected a policy, then options of replay, such as "sjf-bco --kappa 4"')
    policy, *options = words
    if {"-h", "--help"} & set(options):
        raise refusal("--help: expected options of replay; `ringbco replay --help` lists them")
    try:
        resolve_policy(policy)
    except RingbcoError as error:
        raise refusal(str(error)) from None
    try:
        ctx = load("replay").make_context("replay", options)
    except RingbcoError as error:
        raise refusal(str(error)) from None
    except Exception as error:
        # Of the library that typer brings along, whose exceptions are not public.
        said = getattr(error, "format_message", None)
        if said is None:
            raise
        raise refusal(str(said())) from None
    given: dict[str, Any] = {"policy": policy}
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.name in _NOT_OF_A_RUN:
            what = "a job table" if parameter.name == "jobs" else max(parameter.opts, key=len)
            raise refusal(f"{what}: leave it out, {_NOT_OF_A_RUN[parameter.name]}")
        given[parameter.name] = ctx.params[parameter.name]
    length = given.pop("round_length", None)
    if "parameters" in given or length is not None:
        try:
            given["parameters"] = fields(policy, given.get("parameters"), length)
        except UsageError as error:
            raise refusal(str(error)) from None
    return given
