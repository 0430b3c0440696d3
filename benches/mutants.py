"""Faults planted by tools, and how many of them the tests catch: `make mutants N=20 SEED=1`.

cargo-mutants plants N faults in the engine's rooms, cosmic-ray N in Python's. SEED draws both lists. A fault
in Rust meets the tests in Rust. One that these miss meets those in Python of whole results (ENGINE).
A fault in Python meets the tests that run its line, those first whose module has most of them. A run of all
tests under coverage says which; it is kept for the next call. All faults are planted in a copy of the tree.

Prints each fault that was missed, then a line a language: caught, missed, unviable (it does not compile, or
no test could run). benches/mutants.toml names faults that no test can see, each with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RUST: Final = ("machine", "speed", "cluster", "placement", "policy", "record")
PYTHON: Final = ("result", "run", "audits", "checker")
# Types in annotations are joined by |, and no test sees those.
UNSEEN: Final = re.compile(r"ReplaceBinaryOperator_BitOr_")
# Columns of one table are of one length: that zip is strict tells the reader so.
STRICT: Final = "strict=True"
# Tests in Python of the engine: of all that is random or kept, and by hand.
ENGINE: Final = (
    "engine/test_golden.py",
    "engine/test_cases.py",
    "policies/test_elastic_by_hand.py",
    "policies/test_elastic_turns.py",
    "engine/test_outages_by_hand.py",
    "custom_policies/test_custom_policies.py",
    "engine/test_priorities_by_hand.py",
    "policies/test_repack.py",
    "result/test_stays.py",
)
SECONDS: Final = 1200.0


def copied(folder: Path) -> Path:
    """The tree that git tracks, and the built engine, in a folder of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    engine = ROOT / "python/ringbco/_core.abi3.so"
    names = [*filter(None, listed.split("\0")), *([str(engine.relative_to(ROOT))] if engine.exists() else [])]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def excused(language: str) -> set[str]:
    """Faults that no test can see."""
    with (ROOT / "benches/mutants.toml").open("rb") as file:
        rows: list[dict[str, str]] = tomllib.load(file).get(language, [])
    return {row["fault"] for row in rows}


def in_rust(count: int, draw: random.Random) -> Counter[str]:
    """Plants faults in the engine."""
    cargo = [str(ROOT / ".venv/bin/cargo-mutants"), "mutants"]
    files = [word for room in RUST if (ROOT / "rust" / room).exists() for word in ("-f", f"rust/{room}/**")]
    listed = subprocess.run(
        [*cargo, "--list", "--json", *files], cwd=ROOT, check=True, capture_output=True, text=True
    )
    unseen = excused("rust")
    known = {one["name"]: one for one in json.loads(listed.stdout) if not one["file"].endswith("tests.rs")}
    names = sorted(known)
    draw.shuffle(names)
    chosen = [name for name in names if with_line(known[name]) not in unseen][:count]
    places = sorted({(known[name]["file"], known[name]["span"]["start"]["line"]) for name in chosen})
    with tempfile.TemporaryDirectory() as out:
        # "delete field" is planted whatever the names, but in lines of the diff alone.
        diff = Path(out, "lines.diff")
        diff.write_text("".join(lines_of(file, places) for file in sorted({file for file, _ in places})))
        wanted = [word for name in chosen for word in ("--re", f"^{re.escape(name)}$")]
        limits = ["--in-diff", str(diff), "--cap-lints", "true"]
        subprocess.run(
            [*cargo, *wanted, *limits, "--no-shuffle", "-o", out, "--", "--no-default-features"],
            cwd=ROOT,
            env=os.environ | {"RINGBCO_CASES": "8", "CARGO_PROFILE_TEST_INCREMENTAL": "true"},
            check=False,
            stdout=sys.stderr,
        )
        result = Counter[str]()
        for kind in ("caught", "missed", "unviable", "timeout"):
            text = set(Path(out, "mutants.out", f"{kind}.txt").read_text().splitlines()).intersection(chosen)
            result[kind] += len(text)
            if kind == "missed":
                missed = sorted(text)
        if result.total() != len(chosen):
            sys.exit(f"{result.total()} of {len(chosen)} faults were planted")
    result["caught"] += result.pop("timeout")
    for name in caught_in_python([known[name] for name in missed]):
        print(f"caught in Python: {name}", flush=True)
        result["missed"] -= 1
        result["caught"] += 1
        missed.remove(name)
    for name in missed:
        print(f"missed: {name}\n    {with_line(known[name])}", flush=True)
    return result


def with_line(fault: dict[str, Any]) -> str:
    """A fault of the engine by its line's text, which stays when others come before it."""
    line = (ROOT / fault["file"]).read_text().splitlines()[fault["span"]["start"]["line"] - 1]
    return f"{re.sub(r':[0-9]+:[0-9]+:', ':', fault['name'])}: {line.strip()}"


def caught_in_python(faults: list[dict[str, Any]]) -> list[str]:
    """Which faults of the engine the tests in Python catch."""
    result: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        # The first is none: the tests pass.
        for fault in [None, *faults] if faults else []:
            path = tree / (fault["file"] if fault else "rust/lib.rs")
            text = path.read_text()
            path.write_text(planted(text, fault) if fault else text)
            if meets_python(tree):
                if fault is None:
                    sys.exit("tests in Python fail without a fault")
                result.append(fault["name"])
            path.write_text(text)
    return result


def planted(text: str, fault: dict[str, Any]) -> str:
    """A source with a fault of the list that cargo-mutants gives."""
    lines = text.splitlines(keepends=True)

    def place(end: str) -> int:
        where = fault["span"][end]
        return sum(map(len, lines[: where["line"] - 1])) + where["column"] - 1

    return text[: place("start")] + fault["replacement"] + text[place("end") :]


def meets_python(tree: Path) -> bool:
    """Whether the engine of a tree fails a test in Python."""
    environment = settings(tree) | {"PYO3_PYTHON": sys.executable, "CARGO_TARGET_DIR": str(tree / "target")}
    build = ["cargo", "build", "--locked", "--lib", "--features", "python", "--quiet"]
    subprocess.run(build, cwd=tree, env=environment, check=True, stdout=sys.stderr)
    shutil.copy2(tree / "target/debug/libringbco.so", tree / "python/ringbco/_core.abi3.so")
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m"]
    pytest = [sys.executable, *words, "not long", *(f"tests/{name}" for name in ENGINE)]
    try:
        ran = subprocess.run(
            pytest, cwd=tree, env=environment, check=False, stdout=sys.stderr, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return True
    return ran.returncode != 0


def lines_of(file: str, places: list[tuple[str, int]]) -> str:
    """A diff that adds the lines of a file at which faults are planted."""
    text = (ROOT / file).read_text().splitlines()
    numbers = [number for other, number in places if other == file]
    hunks = [f"@@ -{n - 1 - k},0 +{n},1 @@\n+{text[n - 1]}\n" for k, n in enumerate(numbers)]
    return f"--- a/{file}\n+++ b/{file}\n{''.join(hunks)}"


def covering(tree: Path) -> Path:
    """Which test runs which line: a database of coverage.py."""
    kept = ROOT / ".venv/mutants.coverage"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    mark = kept.with_suffix(".commit")
    if not kept.exists() or not mark.exists() or mark.read_text() != head.stdout:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "logical",
            "--dist",
            "worksteal",
            "-m",
            "not long",
        ]
        command += ["--cov=ringbco", "--cov-context=test", "--cov-report=", "-p", "no:cacheprovider"]
        environment = settings(tree) | {"COVERAGE_FILE": str(kept)}
        subprocess.run(command, cwd=tree, env=environment, check=True, stdout=sys.stderr)
        mark.write_text(head.stdout)
    return kept


def tests_of(kept: Path, name: str, lines: range) -> list[str]:
    """The tests that run a line; those of the whole file where it is run as the file is loaded."""
    from coverage.numbits import num_in_numbits

    with sqlite3.connect(kept) as database:
        rows = database.execute(
            "select context.context, line_bits.numbits from line_bits"
            " join file on file.id = file_id join context on context.id = context_id"
            " where file.path like ? and context.context like 'tests/%'",
            ("%" + name,),
        ).fetchall()
    of_line = [row for row in rows if any(num_in_numbits(line, row[1]) for line in lines)]
    tests = sorted({context.rpartition("|")[0] for context, _ in of_line or rows})
    modules = Counter(test.partition("::")[0] for test in tests)
    return sorted(tests, key=lambda test: (-modules[test.partition("::")[0]], test))


def settings(tree: Path) -> dict[str, str]:
    """The environment in which tests run in a copy."""
    shared = os.environ.get("RINGBCO_SHARED", str(ROOT.parent / "shared"))
    return os.environ | {
        "PYTHONPATH": str(tree / "python"),
        "POLARS_MAX_THREADS": "1",
        "RINGBCO_SHARED": shared,
    }


def in_python(count: int, draw: random.Random) -> Counter[str]:
    """Plants faults in the package."""
    from cosmic_ray.commands.init import _all_work_items
    from cosmic_ray.mutating import mutate_and_test

    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        kept = covering(tree)
        files = sorted(path for room in PYTHON for path in (tree / "python/ringbco" / room).rglob("*.py"))
        items = [
            item for item in _all_work_items(files, {}) if not UNSEEN.search(item.mutations[0].operator_name)
        ]
        draw.shuffle(items)
        unseen, actual = excused("python"), Counter[str]()
        os.environ.update(settings(tree))
        os.chdir(tree)
        for item in items:
            if actual.total() == count:
                break
            (fault,) = item.mutations
            name = str(fault.module_path)[str(fault.module_path).rindex("/ringbco/") :]
            text = f"{name[1:]}: {fault.definition_name}: {fault.operator_name} {fault.occurrence}"
            tests = tests_of(kept, name, range(fault.start_pos[0], fault.end_pos[0] + 1))
            if text in unseen or not tests or of_strict(tree, fault):
                continue
            (tree / "chosen.txt").write_text("\n".join(tests))
            command = f"{sys.executable} -m pytest -q -x -p no:cacheprovider @chosen.txt"
            result = mutate_and_test(item.mutations, command, SECONDS)
            kind = kind_of(result)
            actual[kind] += 1
            if kind == "missed":
                print(f"missed: {text}\n{result.diff}")
            print(f"{actual.total()} of {count}: {kind}", file=sys.stderr)
        return actual


def of_strict(tree: Path, fault: Any) -> bool:
    """Whether a fault only lets zip take columns of several lengths."""
    line = (tree / fault.module_path).read_text().splitlines()[fault.start_pos[0] - 1]
    return "ReplaceTrueWithFalse" in fault.operator_name and line[: fault.end_pos[1]].endswith(STRICT)


def kind_of(result: Any) -> str:
    """What became of a fault."""
    if result.worker_outcome != "normal":
        return "unviable"
    return "missed" if result.test_outcome == "survived" else "caught"


def main() -> None:
    """Plants faults, and prints what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="faults in each language")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--only", choices=("rust", "python"), help="one language")
    given = parser.parse_args()
    for language, plant in (("rust", in_rust), ("python", in_python)):
        if given.only in (None, language):
            result = plant(given.count, random.Random(given.seed))
            kinds = ", ".join(f"{result[kind]} {kind}" for kind in ("caught", "missed", "unviable"))
            print(f"{language}, seed {given.seed}: {kinds}", flush=True)


if __name__ == "__main__":
    main()
