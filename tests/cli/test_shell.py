"""What a shell, a terminal and a system's limits can do to a command."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from conftest import Invoke, only_linux
from core_run import CASES
from ringbco import shell
from ringbco.io import process
from ringbco.io.manifest import MANIFEST
from ringbco.io.system import c_function
from ringbco.trace.jobs import read_jobs

MOMENTS = max(4, CASES // 75)
COMMAND = (sys.executable, "-m", "ringbco", "replay", "small.csv", "--cluster", "2x8", "-o", "r")


@pytest.mark.usefixtures("small_jobs")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_streams_cost_no_result(invoke: Invoke, tmp_path: Path, closed: tuple[int, ...]) -> None:
    """As `2>&-` does it."""

    def close() -> None:
        for number in closed:
            os.close(number)

    done = subprocess.run(COMMAND, cwd=tmp_path, preexec_fn=close, check=False)
    assert done.returncode == 0
    assert sorted(os.listdir(tmp_path / "r")) == [
        "allocations.parquet", "jobs.parquet", MANIFEST, "run.toml", "summary.json", "timeline.parquet",
    ]  # fmt: skip
    # Nothing that was meant for a terminal went into a file that took its number.
    assert invoke("audit", "r").returncode == 0


@pytest.mark.usefixtures("small_jobs")
def test_an_error_with_stderr_closed_keeps_its_status(tmp_path: Path) -> None:
    command = [*COMMAND[:4], "missing.csv", *COMMAND[5:]]
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=lambda: os.close(2), check=False)
    assert done.returncode == 1


@pytest.mark.usefixtures("small_jobs")
@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        (resource.RLIMIT_NOFILE, 5, "at most 5 files may be open: expected at least 16; raise `ulimit -n`"),
        pytest.param(
            resource.RLIMIT_AS,
            400_000_000,
            "the process may use 400 MB of memory: expected at least 1,500",
            marks=only_linux,
        ),
    ],
)
def test_a_limit_too_low_is_one_line(tmp_path: Path, limit: int, value: int, said: str) -> None:
    done = subprocess.run(
        COMMAND,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.usefixtures("small_jobs")
def test_a_soft_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = subprocess.run(
        COMMAND,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, hard)),
        check=False,
    )
    assert done.returncode == 0


@pytest.fixture(scope="module")
def listed() -> Callable[..., bytes]:
    """What `policies` prints, in tables, where there is no terminal, with these variables."""
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "ringbco", "policies"]

    @cache
    def run(**variables: str) -> bytes:
        return subprocess.run(
            command,
            env=environment | variables,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        ).stdout

    return run


@pytest.mark.parametrize("columns", ["0", "1", "-5", "wide", "19"])
def test_a_width_that_is_none_is_as_if_there_were_none(listed: Callable[..., bytes], columns: str) -> None:
    assert listed(COLUMNS=columns) == listed() != listed(COLUMNS="40")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_of_the_start(small_jobs: Path, number: signal.Signals) -> None:
    """While modules are imported, most of all: compiled ones panic where that fails."""
    # It says so itself once it listens. A job in the background has no handler of SIGINT by itself.
    listening = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " import ringbco.shell as s; real = s.prepare;"
        " s.prepare = lambda: (print(flush=True), real()); s.main()"
    )
    command = [sys.executable, "-c", listening, *COMMAND[3:], "--quiet", "--force"]
    statuses = set()
    for moment in range(MOMENTS):
        run = subprocess.Popen(
            command, cwd=small_jobs.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(0.48 * moment / MOMENTS)
        run.send_signal(number)
        _, said = run.communicate(timeout=60)
        # A shell says 128 + number of a process that the signal ended, here when all was done.
        status = run.returncode if run.returncode >= 0 else 128 - run.returncode
        assert status in (128 + number, 0), said
        assert said in ("", "interrupted: nothing was written\n")
        statuses.add(status)
        assert [name for name in os.listdir(small_jobs.parent) if name.endswith(".partial")] == []
    assert 128 + number in statuses


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_program(small_jobs: Path, number: signal.Signals) -> None:
    """The solver works for minutes here, and meanwhile Python calls no handler."""
    (small_jobs.parent / "mine.py").write_text(
        "import numpy as np, ringbco\n"
        "from ringbco.policies import programs\n"
        "class Mine(ringbco.Policy):\n"
        "    def decide(self, state):\n"
        "        random = np.random.default_rng(1)\n"
        "        program = programs.Program(random.random(300), np.ones(300), whole=True)\n"
        "        for _ in range(200):\n"
        "            program.row(np.arange(300), random.random(300), upper=30.0)\n"
        "        print('solving', flush=True)\n"
        "        program.solve()\n"
    )
    listening = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " import ringbco.shell as s; s.main()"
    )
    command = [sys.executable, "-c", listening, *COMMAND[3:], "--quiet", "--policy", "mine.py:Mine"]
    run = subprocess.Popen(
        command, cwd=small_jobs.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "solving\n"
    run.send_signal(number)
    try:
        _, said = run.communicate(timeout=30)  # two seconds where nobody else is at work
    finally:
        run.kill()
    assert (run.returncode, said) == (128 + number, "interrupted: nothing was written\n")
    assert not (small_jobs.parent / "r").exists()


def test_a_signal_past_the_work_ends_the_process_without_a_word(small_jobs: Path) -> None:
    code = (
        "import atexit, signal, ringbco.shell as s\n"
        "atexit.register(lambda: (signal.raise_signal(signal.SIGTERM), print('alive')))\ns.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *COMMAND[3:], "--quiet"],
        cwd=small_jobs.parent,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGTERM, "", "")
    assert (small_jobs.parent / "r" / "summary.json").exists()


def test_a_signal_during_an_import_waits_until_it_is_done(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nsum(range(1000))\ndone = True\n"
    )
    code = (
        "import sys, time; sys.path.insert(0, '.')\n"
        "from ringbco import shell\nshell.listen()\n"
        "try:\n    import slow\n    time.sleep(30)\nexcept KeyboardInterrupt:\n"
        "    print(sys.modules['slow'].done, flush=True)\n    sys.exit(shell.tell_interrupt())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (143, "True\n")
    assert done.stderr == "interrupted: nothing was written\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_engine_looks_for_numpy(small_jobs: Path, number: signal.Signals) -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import numpy.lib, ringbco.shell as s\nreal = numpy.lib.NumpyVersion\n"
        "def ask(version):\n"
        f"    print('asked', flush=True); signal.raise_signal({int(number)}); return real(version)\n"
        "numpy.lib.NumpyVersion = ask\ns.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *COMMAND[3:], "--quiet"],
        cwd=small_jobs.parent,
        check=False,
        capture_output=True,
        text=True,
    )
    # polars asks within an import, where the signal waits; the engine may ask before it comes.
    assert (run.returncode, {*run.stdout.split()}) == (128 + number, {"asked"})
    assert run.stderr == "interrupted: nothing was written\n"
    assert not (small_jobs.parent / "r").exists()


def test_the_engine_finds_numpy_however_often_it_was_interrupted(small_jobs: Path) -> None:
    """At each step of Python on the way, one after the other; what follows is as if nothing had been."""
    code = (
        "import sys, ringbco\n"
        "from ringbco.io.bridge import open_arrays\n"
        "steps = 0\n"
        "def trace(frame, event, _):\n"
        "    global left\n"
        "    left -= 1\n"
        "    if left < 0: raise KeyboardInterrupt\n"
        "    return trace\n"
        "while True:\n"
        "    left = steps\n"
        "    sys.settrace(trace)\n"
        "    try: open_arrays()\n"
        "    except KeyboardInterrupt: steps += 1\n"
        "    else: break\n"
        "    finally: sys.settrace(None)\n"
        "print(steps, ringbco.replay('small.csv', '2x8').jobs.height)"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=small_jobs.parent, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    steps, jobs = map(int, run.stdout.split())
    assert steps > 10
    assert jobs == read_jobs(small_jobs).num_jobs


def limited(folder: Path, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ringbco", *arguments],
        cwd=folder,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
        check=False,
        capture_output=True,
        text=True,
    )


@only_linux
@pytest.mark.long
def test_a_limit_too_low_for_pictures_costs_no_table(small_jobs: Path) -> None:
    both = ("--policy", "fifo", "--policy", "sjf", "-o", "cmp", "--quiet")
    done = limited(small_jobs.parent, 16_000_000_000, "compare", "small.csv", "--cluster", "2x8", *both)
    assert done.returncode == 0, done.stderr
    assert done.stderr == (
        "note: pictures need 70 GB of addresses, and `ulimit -v` allows 16.0 GB: raise it to 70000000 or to"
        " unlimited; the page was written without\n"
    )
    assert (small_jobs.parent / "cmp" / "comparison.parquet").exists()
    page = (small_jobs.parent / "cmp" / "report.html").read_text(encoding="utf-8")
    assert "Not drawn: pictures need 70 GB" in page
    asked = ("report", "cmp", "-o", "p.html", "--figures", "svg")
    done = limited(small_jobs.parent, 16_000_000_000, *asked)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: pictures need 70 GB of addresses")
    assert not (small_jobs.parent / "p.html").exists()
    assert limited(small_jobs.parent, 16_000_000_000, "demo", "-q", "-o", "demo").returncode == 0
    assert {"report.html"} == {path.name for path in small_jobs.parent.glob("demo/*.[hp]*")}


@only_linux
@pytest.mark.parametrize("how", ["os.abort()", "os.kill(os.getpid(), 11)", "raise MemoryError"])
def test_a_death_under_a_limit_of_memory_is_one_line(small_jobs: Path, how: str) -> None:
    (small_jobs.parent / "mine.py").write_text(
        "import os, ringbco\nclass Mine(ringbco.Policy):\n"
        f"    def decide(self, state):\n        os.write(2, b'words of a library')\n        {how}\n"
    )
    run = ("replay", "small.csv", "--cluster", "2x8", "--policy", "mine.py:Mine", "-o", "r", "--quiet")
    done = limited(small_jobs.parent, 8_000_000_000, *run)
    said = "error: out of memory: the process may use 8,000 MB; raise `ulimit -v`, or run it elsewhere\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert not (small_jobs.parent / "r").exists()


def test_no_room_for_a_library_is_out_of_memory(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke, small_jobs: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ImportError("libarrow.so.2600: failed to map segment from shared object")

    monkeypatch.setattr("ringbco.result.folder.check_target", fail)
    run = invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r")
    assert run.returncode == 1
    assert run.stderr == "error: out of memory; give the process more, or run it elsewhere\n"


def test_only_standard_output_is_called_so(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke, small_jobs: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ringbco.result.folder.check_target", fail)
    run = invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r")
    assert run.stderr == "error: No space left on device; free some space or write elsewhere\n"


def test_texts_that_a_spreadsheet_would_work_out(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(
        "job_id,submit_time,num_gpus,duration,user\n=1+1,0,1,10,@me\n+a,1,1,10,-x\nplain,2,1,10,a=b\n"
    )
    for options, ids in (((), ["=1+1", "+a", "plain"]), (("--csv-safe",), ["'=1+1", "'+a", "plain"])):
        run = invoke("convert", "csv", "raw.csv", "-o", "y.csv", "--force", *options)
        assert run.returncode == 0, run.stderr
        frame = read_jobs("y.csv").frame
        assert frame["job_id"].to_list() == ids
        quote = "'" if options else ""
        assert frame["user"].to_list() == [f"{quote}@me", f"{quote}-x", "a=b"]
        assert frame["duration"].to_list() == [10.0] * 3


def test_the_handlers_are_those_of_the_shell() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        process.listen()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert process.received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
        process.received.clear()


@only_linux
@pytest.mark.parametrize(
    ("given", "pool"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_columns_share_one_allocator_unless_the_user_says_another(given: dict[str, str], pool: str) -> None:
    """Of glibc's: where there is no mallopt, each library keeps its own."""
    if c_function("mallopt") is None:
        pytest.skip("this C library has no mallopt")
    code = (
        "import ringbco.shell, os; ringbco.shell.prepare(); import pyarrow as pa;"
        " print(pa.default_memory_pool().backend_name, os.environ['NUMPY_MADVISE_HUGEPAGE'])"
    )
    free = {name: value for name, value in os.environ.items() if name not in shell._WITH_MALLOC}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**free, **given}, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [pool, "0"]


@only_linux
def test_memory_that_was_freed_is_given_back() -> None:
    """Under the settings of the command line it would stay: a block beyond the top holds what is below."""
    if c_function("malloc_trim") is None:
        pytest.skip("this C library has no malloc_trim")
    code = (
        "import ringbco.shell; ringbco.shell.prepare()\n"
        "import numpy as np\n"
        "from ringbco.io.memory import give_back\n"
        "def held(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "columns, above = [np.ones(1 << 20) for _ in range(16)], np.ones(1 << 20)\n"
        "columns.clear(); before = held(); give_back(); print(before - held(), above.size)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout.split()[0]) > 100 << 20
