"""Does the run come out again, and are the files those that it wrote?

The physics of a result says nothing of what its policy decided. So what run.toml asks for is run once more,
and every table and figure held beside those of the result. A seal, the digests that the run left in
ringbco.json, finds what was edited since without a run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from ringbco.audits.findings import Check
from ringbco.errors import InputError, RingbcoWarning, UsageError
from ringbco.io.manifest import digest, read_manifest
from ringbco.io.process import scratch_folder
from ringbco.result.folder import figures_digest
from ringbco.result.tables import SUMMARY, TABLES

NOT_MADE = "physics only: what the policy decided was not checked"
"""What is said where nothing was repeated."""


def check_seal(check: Check, folder: Path) -> None:
    """Every table and the figures have the digests that the run wrote down."""
    manifest = read_manifest(folder)
    if manifest is None:
        check.not_run = "the folder has no ringbco.json"
        return
    known = manifest.files | manifest.sealed
    for name in (*sorted(table.file for table in TABLES.values()), SUMMARY):
        path = folder / name
        if name not in known and not path.is_file():
            continue
        if name == SUMMARY and name not in manifest.sealed:
            continue  # an earlier version sealed no figures
        if check.expect(holds=name in known, message=f"{name} was not written by the run") and path.is_file():
            found = figures_digest(folder) if name == SUMMARY else digest(path)
            if found != known[name]:
                check.fail(
                    f"{name} has changed since the run: its SHA-256 begins with {found[:12]}; sealed:"
                    f" {str(known[name])[:12]}"
                )
        elif name in known:
            check.fail(f"{name} is not there any more")


def check_repeat(
    check: Check,
    folder: Path,
    jobs: Path | None,
    policy: str | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Runs what run.toml asks for, and counts the files of the result that come out otherwise.

    Raises InputError and UsageError for a `policy` that is not the one recorded.
    """
    # The engine is loaded for this check alone.
    from ringbco.run.again import compare_results, read_repeat
    from ringbco.run.copies import CannotRepeatError

    try:
        wanted = read_repeat(folder, jobs, policy)
    except CannotRepeatError as error:
        check.not_run = str(error)
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RingbcoWarning)  # the run had its own
            again = wanted.run(progress)
    except (InputError, UsageError) as error:
        check.fail(f"the run that run.toml asks for is refused: {error}")
        return
    with scratch_folder("ringbco-") as scratch:
        again.write(scratch / "again")
        found = compare_results(folder, scratch / "again", named=wanted.is_custom)
    others = wanted.other_versions(again.run["ringbco"])
    made = ", ".join(f"{name} {was} (here {now})" for name, (was, now) in others.items())
    for name, difference in found.items():
        said = f"{name}: {difference}" + (f"; the result was made with {made}" if made else "")
        check.expect(holds=difference is None, message=said)
