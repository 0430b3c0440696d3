"""`compare --run "sjf-bco --kappa 4"`: a policy and options of `replay`, as one text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

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
    """What each text asks for, as `ringbco.compare` takes it, under the text itself.

    cluster, network, vc, recorded: what holds where a text says nothing else. Raises UsageError naming the
    text at fault.
    """
    from ringbco.cli.inputs import parse_cluster
    from ringbco.cluster.network import NETWORK_RULES
    from ringbco.errors import InputError, UsageError

    runs: dict[str, dict[str, Any]] = {}
    for text in texts:
        if text in runs:
            raise UsageError(f"option run: {text!r}: expected each run once")
        own = _parsed(text)
        of_cluster = {name: own.pop(name) for name in ("cluster", "vc", *NETWORK_RULES) if name in own}
        if of_cluster:
            links = {name: of_cluster.get(name, value) for name, value in network.items()}
            try:
                own["cluster"] = parse_cluster(
                    of_cluster.get("cluster", cluster), links, of_cluster.get("vc", vc), recorded
                )
            except (InputError, UsageError) as error:
                raise UsageError(f"option run: {text!r}: {error}") from None
        runs[text] = own
    return runs


def _parsed(text: str) -> dict[str, Any]:
    """The policy and the options that are in the text, by the names of `replay`'s parameters."""
    from ringbco.cli import load
    from ringbco.cli.inputs import fields
    from ringbco.errors import RingbcoError, UsageError
    from ringbco.run.options import resolve_policy

    def refusal(reason: str) -> UsageError:
        return UsageError(f"option run: {text!r}: {reason}")

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
