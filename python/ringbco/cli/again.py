"""`ringbco replay --again DIR`: a result repeated from its run.toml, and whether it comes out the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ringbco.io.process import scratch_folder
from ringbco.io.terminal import say, say_json

if TYPE_CHECKING:
    import typer

    from ringbco.run.again import Repeat

_TAKEN: Final = ("jobs", "out", "again", "force", "as_json", "quiet", "request_rows")


def repeat(
    ctx: typer.Context,
    folder: Path,
    jobs: Path | None,
    out: Path | None,
    *,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Runs the result in `folder` once more; OtherwiseError (exit status 3) where it comes out otherwise.

    out: where the repeat is kept; None for nowhere. With --request-rows the repeat has requests.parquet, even
    if the result has not.
    """
    from ringbco.cli.progress import progress_bar
    from ringbco.errors import OtherwiseError
    from ringbco.result.folder import check_target
    from ringbco.result.tables import TABLES
    from ringbco.run.again import compare_results, read_repeat

    policy = _policy(ctx)
    if out is not None:
        _refuse_itself(folder, out)
        check_target(out, force=force)
    wanted = read_repeat(folder, jobs, policy)
    beyond = bool(ctx.params["request_rows"]) and not wanted.options.get("request_rows")
    if beyond:
        wanted = replace(wanted, options={**wanted.options, "request_rows": True})
    unit = "%" if wanted.command == "plan" else "jobs"
    shown = policy or wanted.options.get("policy", "?")
    with progress_bar(f"{shown} on {wanted.cluster.name}", quiet=quiet, unit=unit) as progress:
        outcome = wanted.run(progress)
    if out is not None:
        outcome.write(out, force=force)
        found = compare_results(folder, out, named=wanted.is_custom)
    else:
        with scratch_folder("ringbco-") as scratch:
            outcome.write(scratch / "again")
            found = compare_results(folder, scratch / "again", named=wanted.is_custom)
    if beyond:
        found.pop(TABLES["requests"].file, None)
    others = wanted.other_versions(outcome.run["ringbco"])
    if as_json:
        told: dict[str, Any] = {
            "result": str(folder),
            "command": wanted.command,
            "jobs": str(wanted.trace),
            "same": not any(found.values()),
            "differences": found,
            "other_versions": others,
            "out": None if out is None else str(out),
        }
        say_json(told)
    elif not quiet:
        _show(wanted, found, out)
    differing = [name for name, difference in found.items() if difference is not None]
    if differing:
        made = ", ".join(f"{name} {was} (here {now})" for name, (was, now) in others.items())
        raise OtherwiseError(
            f"{folder}: came out otherwise: {', '.join(differing)}"
            + (f"; the result was made with {made}" if made else "")
        )


def _policy(ctx: typer.Context) -> str | None:
    """What --policy says. Raises UsageError for another setting beside --again: run.toml says all of them."""
    from ringbco.errors import UsageError

    given = None
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.name == "policy":
            given = str(ctx.params["policy"])
        elif parameter.name not in _TAKEN:
            option = max(parameter.opts, key=len)
            raise UsageError(
                f"option {option.lstrip('-')}: --again takes every setting from run.toml: leave it out"
            )
    return given


def _refuse_itself(folder: Path, out: Path) -> None:
    from ringbco.errors import UsageError
    from ringbco.io.system import place

    target, result = Path(place(out)), Path(place(folder))
    if target == result:
        raise UsageError(f"option out: {out}: expected another folder than the result to be repeated")
    if target.is_relative_to(result) or result.is_relative_to(target):
        raise UsageError(f"option out: {out}: expected a folder apart from the result to be repeated")


def _show(wanted: Repeat, found: dict[str, str | None], out: Path | None) -> None:
    kept = "" if out is None else f", kept in {out}"
    say(f"{wanted.folder}: {wanted.command} of {wanted.trace} on {wanted.cluster.name}, repeated{kept}")
    width = max(map(len, found))
    for name, difference in found.items():
        say(f"{name:{width}}  {'the same' if difference is None else difference}")
