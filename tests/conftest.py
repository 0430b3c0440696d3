"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from ringbco import cli
from ringbco.io.system import is_linux

if TYPE_CHECKING:
    from browser import Browser

# Tests start hundreds of processes; each would compile the package for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A slow machine is no defect.
settings.register_profile("ringbco", deadline=None)
settings.load_profile("ringbco")

SHARED = Path(os.environ.get("RINGBCO_SHARED") or Path(__file__).parents[2] / "shared")
NO_TRACE = "no public trace"

only_linux = pytest.mark.skipif(not is_linux(), reason="no other system has this")

# Seven jobs on small servers: queueing, a gang over two servers, submissions in one second, a long tail.
SMALL_JOBS = """\
job_id,submit_time,num_gpus,duration
a,0,4,100
b,0,6,50
c,10,2,30
d,10,8,200
e,20,1,10
f,1000,3,60
g,1000,1,600
"""

# A sweep of six runs of them.
GRID = """\
[base]
trace = "small.csv"
cluster = "2x8"

[grid]
policy = ["fifo", "sjf", "sjf-bco"]
seed = [0, 1]
"""

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]
Invoke = Callable[..., SimpleNamespace]


def present(path: Path) -> Path:
    """The path of a public trace. Without it the test is skipped; with RINGBCO_EXPECT_TRACES=1 it fails."""
    if path.exists():
        return path
    missing = f"{NO_TRACE} {path}"
    if os.environ.get("RINGBCO_EXPECT_TRACES") == "1":
        pytest.fail(f"{missing}; RINGBCO_EXPECT_TRACES=1 says that it is there", pytrace=False)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of public traces beside the project."""
    return present(SHARED / "traces")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Lines below all others: what met in random cases, the tests skipped for want of a public trace."""
    yield
    entries = [dict(getattr(report, "user_properties", ())) for report in terminalreporter.getreports("")]
    if drawn := [each["cases"] for each in entries if "cases" in each]:
        terminalreporter.write_line(said(drawn))
    if compared := [each["decisions"] for each in entries if "decisions" in each]:
        for line in decided(compared, in_full="RINGBCO_LARGE_JOBS" in os.environ):
            terminalreporter.write_line(line)
    modules = [
        Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple) and NO_TRACE in report.longrepr[2]
    ]
    if modules:
        each = ", ".join(f"{module} {count}" for module, count in sorted(Counter(modules).items()))
        terminalreporter.write_line(
            f"{len(modules)} tests skipped without the public traces in {SHARED / 'traces'} ({each});"
            " CONTRIBUTING.md says where to get them"
        )


def said(drawn: list[dict[str, Any]]) -> str:
    """What random cases had in common, all of them together."""
    count, features, refusals = (
        sum(each[name] for each in drawn) for name in ("cases", "features", "refusals")
    )
    return (
        f"{count} random cases: {features / count:.1f} features met on average,"
        f" {refusals} features were refused"
    )


def decided(compared: list[dict[str, Any]], *, in_full: bool) -> Iterator[str]:
    """Of decisions of long runs how many the reference model takes alike: of each policy, and of all."""
    if in_full:
        yield "| policy | jobs | decisions | wait | starts | stops | agree |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
        for each in compared:
            waiting = round(each["waiting"] / max(1, each["decisions"]))
            cells = (each["jobs"], each["decisions"], waiting, each["starts"], each["stops"], each["agree"])
            yield f"| {each['policy']} | {' | '.join(f'{cell:,}' for cell in cells)} |"
    count, starts, stops, agree = (
        sum(each[name] for each in compared) for name in ("decisions", "starts", "stops", "agree")
    )
    yield (
        f"{count} decisions of {len(compared)} long runs, {starts} starts and {stops} stops:"
        f" the reference model takes {agree} alike"
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser for all tests of a session; without one on the machine they are skipped."""
    from browser import Browser, find_chromium

    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on the path; apt-get install chromium, or set RINGBCO_CHROMIUM")
    started = Browser(program)
    yield started
    started.close()


@pytest.fixture
def small_jobs(tmp_path: Path) -> Path:
    """A job table of seven jobs as a CSV file in the test's own folder."""
    path = tmp_path / "small.csv"
    path.write_text(SMALL_JOBS)
    return path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, and in every process that the test starts, ringbco does as it does on macOS."""
    monkeypatch.setenv("RINGBCO_SYSTEM", "darwin")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("making a small file system takes root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def run_cli(tmp_path: Path) -> RunCli:
    """Runs `ringbco ARGUMENTS...` as a process of its own in the test's folder."""
    return partial(run_ringbco, tmp_path, [])


@pytest.fixture
def run_cli_within_rights(tmp_path: Path) -> RunCli:
    """Like `run_cli`, but files' permissions bind the process even where root runs the tests."""
    return partial(run_ringbco, tmp_path, ["-c", WITHIN_RIGHTS] if os.geteuid() == 0 else [])


# Root passes over permissions by two capabilities: CAP_DAC_OVERRIDE is number 1, CAP_DAC_READ_SEARCH 2. What
# is dropped from the bounding set (prctl 24) is gone after exec. Root still owns the files and can read them.
WITHIN_RIGHTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for capability in (1, 2):
    if libc.prctl(24, capability, 0, 0, 0):
        sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_ringbco(
    folder: Path, wrapper: list[str], *arguments: object, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Runs `ringbco ARGUMENTS...` in a folder, by way of Python with the arguments of `wrapper` if any."""
    return subprocess.run(
        [sys.executable, *wrapper, "-m", "ringbco", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def invoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Invoke]:
    """Runs `ringbco ARGUMENTS...` inside this process, which is quicker, in the test's own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def run(*arguments: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["ringbco", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=ended.value.code or 0, stdout=out, stderr=err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def unvalidated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Altair holds no chart against the schema of Vega-Lite, which takes almost half the time of a page.

    For tests of something else: the same charts are validated in test_report, and in those of other pages.
    """
    from altair.utils.schemapi import SchemaBase

    monkeypatch.setattr(SchemaBase, "validate", lambda *_: None)


@pytest.fixture
def spec(small_jobs: Path) -> Path:
    """Six runs of the small table that lies beside the specification."""
    path = small_jobs.with_name("spec.toml")
    path.write_text(GRID)
    return path
