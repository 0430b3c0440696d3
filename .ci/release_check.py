"""Holds what a release must hold, on the files in dist/ and a second build: docs/releasing.md says what."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.version import Version

ROOT: Final = Path(__file__).parents[1]
MOST_LINES: Final = 10
LIBRARY: Final = re.compile(r"^ringbco/_core\.abi3\.so$")
MAY_DIFFER: Final = re.compile(r"^ringbco/_core\.abi3\.so$|\.dist-info/(RECORD|sboms/[^/]+)$")
# What a file of somebody else's says of itself.
NOTICE: Final = re.compile(rb"@license|copyright \(c\)|SPDX-License", re.IGNORECASE)


def versions(root: Path) -> dict[str, str]:
    """The version in each file that has one, as Python writes it. Cargo.toml is where it is changed."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    told = {
        "Cargo.toml": manifest["package"]["version"],
        "Cargo.lock": next(each["version"] for each in lock["package"] if each["name"] == "ringbco"),
        "CITATION.cff": re.findall(r"^version: (\S+)$", citation, re.MULTILINE)[0],
    }
    return {name: str(Version(version)) for name, version in told.items()}


def unlike(told: dict[str, str], tag: str | None) -> list[str]:
    """What is wrong with these versions, and with the tag of a release."""
    wanted = told["Cargo.toml"]
    found = [
        f"{name}: version {version}: expected {wanted}, as in Cargo.toml"
        for name, version in told.items()
        if version != wanted
    ]
    if tag is not None and tag != f"v{wanted}":
        found.append(f"tag {tag}: expected v{wanted}, by Cargo.toml")
    return found


def long_beginnings(changelog: str, tag: str | None) -> list[str]:
    """Versions that do not begin with what a user notices first, in ten lines at most."""
    found = []
    titles = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    for title, section in zip(titles, re.split(r"^## .*$", changelog, flags=re.MULTILINE)[1:], strict=True):
        lines = [line for line in re.split(r"^### ", section, flags=re.MULTILINE)[0].splitlines() if line]
        if not 1 <= len(lines) <= MOST_LINES:
            found.append(f"CHANGELOG.md: {title}: begins with {len(lines)} lines: expected 1 to {MOST_LINES}")
    if tag is not None and tag.removeprefix("v") not in titles:
        found.append(f"CHANGELOG.md: no chapter of {tag}: expected ## {tag.removeprefix('v')}")
    return found


def contents(archive: Path) -> dict[str, bytes]:
    """The files in a wheel or a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as packed:
        return {
            member.name: file.read()
            for member in packed.getmembers()
            if (file := packed.extractfile(member)) is not None
        }


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The files that two builds have different bytes of, but for those that may differ."""
    return [
        f"{name}: two builds of this commit differ"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name) and not MAY_DIFFER.search(name)
    ]


def without_licence(wheel: dict[str, bytes]) -> list[str]:
    """Files of others in the package whose licence is not in the wheel; that of ringbco itself."""
    licences = [name for name in wheel if "/licenses/" in name]
    found = [] if any(name.endswith("/LICENSE") for name in licences) else ["LICENSE: not in the wheel"]
    for name, text in wheel.items():
        theirs = name.startswith("ringbco/") and not LIBRARY.match(name) and NOTICE.search(text)
        own = Path(name).name + ".LICENSE"
        if theirs and not any(licence.endswith("/" + own) for licence in licences):
            found.append(f"{name}: is somebody else's: expected {own} among the licences in the wheel")
    return found


def unlisted(wheel: dict[str, bytes], crates: Iterable[str]) -> list[str]:
    """Crates, as NAME VERSION, that the wheel's list of parts (SBOM) has not."""
    lists = [json.loads(text) for name, text in wheel.items() if "/sboms/" in name]
    listed = {f"{part['name']} {part['version']}" for told in lists for part in told["components"]}
    return [f"SBOM: {crate} is missing" for crate in sorted(set(crates) - listed)]


def crates_built(root: Path) -> list[str]:
    """The crates that the library is compiled of, by Cargo."""
    command = ["cargo", "tree", "--locked", "--edges", "normal", "--features", "python", "--prefix", "none"]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    pairs = {tuple(line.split()[:2]) for line in done.stdout.splitlines()}
    return [f"{name} {version.removeprefix('v')}" for name, version in pairs if name != "ringbco"]


def only(folder: Path, ending: str) -> Path:
    """The one file of that ending."""
    (found,) = folder.glob(f"*{ending}")
    return found


def main(tag: str | None) -> int:
    """Prints what is wrong, a line each; 1 if anything is."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = [f"{line[3:]}: not committed" for line in changed.stdout.splitlines()]
    told = versions(ROOT)
    found += unlike(told, tag)
    found += long_beginnings((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), tag)
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "again"
        subprocess.run(["git", "clone", "--quiet", ROOT, again], check=True)
        subprocess.run(["make", "--no-print-directory", "wheel", "sdist"], cwd=again, check=True)
        hashes = []
        for ending in (".whl", ".tar.gz"):
            first, second = only(ROOT / "dist", ending), only(again / "dist", ending)
            if f"-{told['Cargo.toml']}" not in first.name:
                found.append(f"{first.name}: expected version {told['Cargo.toml']}, by Cargo.toml")
            builds = [contents(first), contents(second)]
            found += differences(*builds)
            if ending == ".whl":
                found += without_licence(builds[0]) + unlisted(builds[0], crates_built(ROOT))
                named = [text for each in builds for name, text in each.items() if LIBRARY.match(name)]
                hashes = [hashlib.sha256(text).hexdigest() for text in named]
    for number, digest in enumerate(hashes, start=1):
        print(f"library of build {number}: sha256 {digest}")
    print(f"the libraries are {'the same' if len(set(hashes)) == 1 else 'different'}")
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    print(f"ringbco {told['Cargo.toml']}: {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
