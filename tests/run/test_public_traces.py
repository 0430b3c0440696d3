"""The public traces under the command line: every file, every preset, and the audit of each result."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from conftest import Invoke
from ringbco.run.options import policies
from ringbco.run.registry import PRESETS

ROOT = Path(__file__).parents[2]
# The page that shows the audit of a trace.
_SHOWN = {"6214e9": "docs/tutorial.md"}


@pytest.mark.long
def test_a_result_and_its_audit_for_every_public_file(invoke: Invoke, shared_traces: Path) -> None:
    traces = [*sorted((shared_traces / "philly").glob("*.csv")), *(shared_traces / "helios").glob("*.csv")]
    assert len(traces) == 9
    for trace in traces:
        run = invoke("replay", trace, "--cluster", "32x8", "--policy", "sjf-bco", "-o", trace.stem)
        assert (run.returncode, run.stderr) == (0, "")
        audit = invoke("audit", trace.stem)
        assert audit.returncode == 0
        if trace.stem in _SHOWN:
            passed = audit.stdout.splitlines()[-1]
            assert passed.endswith(" checks passed")
            assert f"...\n{passed}\n" in (ROOT / _SHOWN[trace.stem]).read_text(encoding="utf-8")


def table_with_deadlines(table: pl.DataFrame, folder: Path) -> Path:
    """The table as a file, each job due after twice its duration and an hour."""
    path = folder / "due.csv"
    table.with_columns(deadline=pl.col("submit_time") + 2 * pl.col("duration") + 3600.0).write_csv(path)
    return path


@pytest.mark.parametrize("policy", [policy.name for policy in policies()])
def test_a_result_and_its_audit_under_every_preset(
    invoke: Invoke, shared_traces: Path, tmp_path: Path, policy: str
) -> None:
    for trace in ("philly/e13805.csv", "helios/venus_2vc_2020-09.csv"):
        jobs = shared_traces / trace
        if policy == "time-slice":  # thousands of stays
            jobs = tmp_path / "some.csv"
            pl.read_csv(shared_traces / trace).head(500).write_csv(jobs)
        if "by deadlines" in PRESETS[policy].is_:
            jobs = table_with_deadlines(pl.read_csv(jobs), tmp_path)
        if "as recorded" in PRESETS[policy].is_:
            starts = pl.read_csv(jobs).with_columns(recorded_start="submit_time")
            starts.write_csv(jobs := tmp_path / "starts.csv")
        run = invoke("replay", jobs, "--cluster", "32x8", "--policy", policy, "-o", "r", "--force")
        assert run.returncode == 0
        assert policy == "recorded" or not run.stderr  # late jobs are told
        assert invoke("audit", "r").returncode == 0
