"""A release: one version, a CHANGELOG that begins well, the Makefile's commands, builds that repeat."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW: Final = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8"))
JOBS: Final[dict[str, Any]] = WORKFLOW["jobs"]
SYSTEMS: Final = {"linux-x86_64", "linux-aarch64", "macos-arm64"}
TRIED: Final = r"\.ci/try dist/\*\.\S+(?: questions)?"
PROFILED: Final = "rustup component add llvm-tools"
LIBRARY: Final = "ringbco/_core.abi3.so"
LICENCE: Final = "ringbco-1.dist-info/licenses/LICENSE"
SBOM: Final = "ringbco-1.dist-info/sboms/ringbco.cyclonedx.json"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = spec_from_file_location("release_check", ROOT / ".ci" / "release_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def recipe(target: str) -> str:
    """The commands of a target of the Makefile."""
    (result,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return str(result)


def test_every_command_of_the_workflow_is_one_of_the_makefile() -> None:
    assert {job: commands(job) for job in JOBS} == {
        "wheels": ["make test", PROFILED, "make wheels"],
        "check": [PROFILED, 'make release-check TAG="$GITHUB_REF_NAME"'],
        "publish": [],
    }
    for command in [command for job in JOBS for command in commands(job) if command != PROFILED]:
        target = command.split()[1]
        assert recipe(target), command
        assert re.search(rf"^\.PHONY:.* {target}( |$)", MAKEFILE, re.MULTILINE), command


def test_it_runs_on_each_system_without_a_browser() -> None:
    matrix = JOBS["wheels"]["strategy"]["matrix"]["include"]
    assert {each["system"] for each in matrix} == SYSTEMS
    assert {each["runner"].split("-")[0] for each in matrix} == {"ubuntu", "macos"}
    (tests,) = (step for step in JOBS["wheels"]["steps"] if step.get("run") == "make test")
    assert tests["env"] == {"RINGBCO_CHROMIUM": ""}


def test_it_publishes_on_a_tag_alone_what_was_tried_and_without_a_password() -> None:
    assert WORKFLOW[True]["push"]["tags"] == ["v*"]  # YAML reads `on` as true
    assert WORKFLOW["permissions"] == {"contents": "read"}
    publish = JOBS["publish"]
    assert publish["if"] == JOBS["check"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert publish["needs"] == ["wheels", "check"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1] == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    assert "secrets." not in json.dumps(JOBS)
    kept = [step["with"]["path"] for step in JOBS["wheels"]["steps"] if "upload" in step.get("uses", "")]
    assert kept == ["dist/*.whl", "dist/*.tar.gz"]


def test_ci_tries_the_wheel_that_is_released() -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make wheel PGO=0 >" in steps
    assert ".ci/try dist/*.whl\n" in steps
    assert {".ci/try dist/*.whl questions", ".ci/try dist/*.tar.gz"} <= {*re.findall(TRIED, recipe("wheels"))}
    assert "$(filter 0,$(PGO)),,.ci/profiled) maturin build --release --locked --strip" in recipe("wheel")
    assert "maturin build" not in steps


def test_a_wheel_is_built_with_a_profile_on_a_tag_alone() -> None:
    (step,) = (step for step in JOBS["wheels"]["steps"] if step.get("run") == PROFILED)
    assert step["if"] == JOBS["check"]["if"]


@pytest.mark.parametrize("found", ["LLVM version 14.0.6", "LLVM version 100.9.1", None])
def test_one_line_says_that_no_profile_can_be_read(found: str | None, tmp_path: Path) -> None:
    asked = """[ "$1" = -vV ] && echo "LLVM version: 99.1.0" || echo /nowhere"""
    for name, does in {"rustc": asked, "llvm-profdata": found and f"echo 'Debian {found}'"}.items():
        if does:
            (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
            (tmp_path / name).chmod(0o755)
    command = [ROOT / ".ci" / "profiled", "echo", "built", "--out", "dist"]
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(command, env=path, check=True, capture_output=True, text=True)
    assert done.stdout == "built --out dist\n"
    assert done.stderr == (
        "the wheel is built without a profile: no llvm-profdata of LLVM 99 found"
        " (rustup component add llvm-tools)\n"
    )


def test_the_source_distribution_has_what_the_build_needs_and_no_tests(tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("ringbco-*.tar.gz")
    with tarfile.open(path) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    asked = ["git", "ls-files", "rust", "python"]
    tracked = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    tests = {name for name in tracked if re.search(r"/tests/|/tests\.rs$|/proptest-regressions/", name)}
    assert tests
    assert names == {*tracked} - tests | {
        "Cargo.lock", "Cargo.toml", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml",
    }  # fmt: skip


def test_the_version_is_one(check: ModuleType) -> None:
    told = check.versions(ROOT)
    assert set(told) == {"Cargo.toml", "Cargo.lock", "CITATION.cff"}
    assert check.unlike(told, None) == []
    assert check.unlike(told, f"v{told['Cargo.toml']}") == []
    assert check.unlike(told, "v9") == [f"tag v9: expected v{told['Cargo.toml']}, by Cargo.toml"]
    (line,) = check.unlike({**told, "CITATION.cff": "9"}, None)
    assert line == f"CITATION.cff: version 9: expected {told['Cargo.toml']}, as in Cargo.toml"


def test_each_version_begins_with_what_a_user_notices_first(check: ModuleType) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert check.long_beginnings(text, None) == []
    long = "# Changelog\n## 2\n" + "- a\n" * 11 + "### Added\n- b\n## 1\n### Added\n- c\n"
    assert check.long_beginnings(long, "v3") == [
        "CHANGELOG.md: 2: begins with 11 lines: expected 1 to 10",
        "CHANGELOG.md: 1: begins with 0 lines: expected 1 to 10",
        "CHANGELOG.md: no chapter of v3: expected ## 3",
    ]


def test_builds_may_differ_in_the_library_and_its_lists_alone(check: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "ringbco-1.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(LIBRARY, b"\x7fELF")
        wheel.writestr("ringbco/units.py", "a")
    one = check.contents(path)
    assert one == {LIBRARY: b"\x7fELF", "ringbco/units.py": b"a"}
    assert check.differences(one, {**one, LIBRARY: b"", SBOM: b"", "ringbco-1.dist-info/RECORD": b""}) == []
    assert check.differences(one, {**one, "ringbco/units.py": b"b", "ringbco/new.py": b""}) == [
        "ringbco/new.py: two builds of this commit differ",
        "ringbco/units.py: two builds of this commit differ",
    ]
    with tarfile.open(tmp_path / "ringbco-1.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo("ringbco-1/README.md")
        member.size = 1
        packed.addfile(member, io.BytesIO(b"x"))
    assert check.contents(tmp_path / "ringbco-1.tar.gz") == {"ringbco-1/README.md": b"x"}


def test_licences_of_what_pages_bundle_are_in_the_wheel(check: ModuleType) -> None:
    package = {
        f"ringbco/{path.relative_to(ROOT / 'python/ringbco').as_posix()}": path.read_bytes()
        for path in (ROOT / "python/ringbco").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert check.without_licence({**package, LICENCE: b""}) == []
    theirs = {"ringbco/reports/page/vega.js": b"// @license BSD-3-Clause"}
    (line,) = check.without_licence({**theirs, LICENCE: b""})
    assert "expected vega.js.LICENSE" in line
    assert check.without_licence({**theirs, LICENCE: b"", f"{LICENCE[:-7]}vega.js.LICENSE": b""}) == []
    assert check.without_licence({}) == ["LICENSE: not in the wheel"]


def test_the_list_of_parts_has_every_crate(check: ModuleType) -> None:
    crates = check.crates_built(ROOT)
    assert {"rayon", "pyo3", "numpy"} < {crate.split()[0] for crate in crates}
    parts = [dict(zip(("name", "version"), crate.split(), strict=True)) for crate in crates]
    assert check.unlisted({SBOM: json.dumps({"components": parts}).encode()}, crates) == []
    (line,) = check.unlisted({SBOM: json.dumps({"components": parts[1:]}).encode()}, crates)
    assert line == f"SBOM: {crates[0]} is missing"
