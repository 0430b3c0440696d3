"""No verb deletes, replaces or writes through what ringbco did not write, with --force or without."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Invoke, RunCli
from core_run import CASES
from folders import one_line, state
from ringbco.cli.demo import folder_kind as demo_kind
from ringbco.errors import InputError
from ringbco.io.manifest import MANIFEST, PICTURES, OutputKind
from ringbco.reports import drawing
from ringbco.result.comparison import COMPARISON
from ringbco.result.folder import RESULT, whole_folder

PNG = b"\x89PNG\r\n\x1a\n a holiday"
REPLAY = ("replay", "small.csv", "--cluster", "2x8", "-o", "r", "-q")


# Folders


@pytest.fixture
def result(small_jobs: Path, invoke: Invoke) -> Path:
    assert invoke(*REPLAY).returncode == 0
    return small_jobs.with_name("r")


def test_a_result_keeps_what_others_put_into_it(result: Path, invoke: Invoke) -> None:
    (result / "photos" / "deep").mkdir(parents=True)
    (result / "photos" / "jct.png").write_bytes(PNG)
    (result / "photos" / "deep" / "sea.png").write_bytes(PNG)
    (result / "holiday.png").write_bytes(PNG)
    (result / "sub.png").mkdir()
    (result / "sub.png" / "x").write_text("mine")
    (result / "link").symlink_to("photos")
    os.mkfifo(result / "pipe")
    (result / "photos").chmod(0o500)
    os.utime(result / "photos", (1, 1))
    theirs = {name: state(result / name) for name in ("photos", "holiday.png", "sub.png", "link")}
    assert invoke(*REPLAY, "--policy", "fifo", "--force").returncode == 0
    assert {name: state(result / name) for name in theirs} == theirs
    assert (result / "pipe").is_fifo()
    assert (result / "photos").stat().st_mode & 0o777 == 0o500
    assert (result / "photos").stat().st_mtime == 1
    assert 'policy = "fifo"' in (result / "run.toml").read_text()
    assert [name for name in os.listdir(result.parent) if name.startswith(".")] == []


def test_a_folder_of_an_earlier_version_loses_only_our_names(result: Path, invoke: Invoke) -> None:
    (result / MANIFEST).unlink()
    (result / "photos").mkdir()
    (result / "photos" / "jct.png").write_bytes(PNG)
    (result / "decisions.parquet").write_bytes((result / "jobs.parquet").read_bytes())
    assert invoke(*REPLAY, "--force").returncode == 0
    assert (result / "photos" / "jct.png").read_bytes() == PNG
    assert not (result / "decisions.parquet").exists()
    assert (result / MANIFEST).is_file()


@pytest.mark.parametrize("name", ["jobs.parquet", "speeds.parquet", "summary.json", MANIFEST])
@pytest.mark.parametrize("how", ["file", "folder", "link"])
def test_a_file_of_others_with_a_name_of_ours_is_refused(
    result: Path, invoke: Invoke, name: str, how: str
) -> None:
    (result / name).unlink(missing_ok=True)
    precious = result.with_name("precious.txt")
    precious.write_text("mine")
    if how == "folder":
        (result / name).mkdir()
        (result / name / "x").write_text("mine")
    elif how == "link":
        (result / name).symlink_to("../precious.txt")
    else:
        (result / name).write_text("mine")
    before = state(result.parent)
    run = invoke(*REPLAY, "--force")
    expected = (
        "is no result of ringbco's"
        if name == "summary.json" and how == "folder"
        else f"error: r: holds {name}, "
    )
    assert expected in one_line(run)
    assert state(result.parent) == before


def test_a_folder_that_cannot_be_read_is_told_in_one_line(
    run_cli_within_rights: RunCli, result: Path
) -> None:
    (result / "jobs.parquet").chmod(0)
    assert "r: holds jobs.parquet, " in one_line(run_cli_within_rights(*REPLAY, "--force"))
    (result / "jobs.parquet").chmod(0o644)
    (result / "photos").mkdir(mode=0)
    assert "r: holds photos, " in one_line(run_cli_within_rights(*REPLAY, "--force"))
    result.chmod(0o400)
    assert "r: cannot be looked into: Permission denied" in one_line(
        run_cli_within_rights(*REPLAY, "--force")
    )
    result.chmod(0o755)


@pytest.mark.long
def test_a_comparison_keeps_what_others_put_into_it_and_its_results(small_jobs: Path, invoke: Invoke) -> None:
    command = ("compare", small_jobs.name, "--cluster", "2x8", "-o", "c", "-q", "--force", "--policy", "sjf")
    assert invoke(*command, "--policy", "fifo").returncode == 0
    Path("c/fifo/notes.txt").write_text("mine")
    Path("c/other").mkdir()
    Path("c/other/x").write_text("mine")
    assert invoke("replay", small_jobs.name, "--cluster", "2x8", "-o", "c/again", "-q").returncode == 0
    theirs = {name: state(Path(name)) for name in ("c/fifo/notes.txt", "c/other", "c/again")}
    assert invoke(*command, "--policy", "ff").returncode == 0
    assert {name: state(Path(name)) for name in theirs} == theirs
    assert os.listdir("c/fifo") == ["notes.txt"]
    # The folder is somebody's by now.
    before = state(Path("c"))
    run = invoke(*command, "--policy", "fifo")
    kept, why = run.stderr.splitlines()
    assert kept.startswith("note: 12 finished runs are kept in ")
    assert "c: holds fifo, which ringbco did not write and which cannot be kept" in why
    assert state(Path("c")) == before


def test_pictures_of_others_are_no_pictures_of_a_report(
    result: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, unvalidated: None
) -> None:
    real = drawing._DRAWER.draw

    def draw(name: str, spec: str, more: Any) -> bytes:
        return PNG + b" chart" if name == "vegalite_to_png" else real(name, spec, more)

    monkeypatch.setattr(drawing._DRAWER, "draw", draw)
    Path("pics").mkdir()
    Path("pics/holiday.png").write_bytes(PNG)
    Path("pics/jct.png").write_bytes(PNG)
    report = ("report", "r", "-o", "r.html", "--png", "pics", "--force")
    before = state(result.parent)
    assert "pics: already exists and is no " in one_line(invoke(*report))
    assert state(result.parent) == before
    Path("pics").rename("mine")
    assert invoke(*report).returncode == 0
    Path("pics/holiday.png").write_bytes(PNG)
    Path("pics/sub.png").mkdir()
    assert invoke(*report).returncode == 0
    assert Path("pics/holiday.png").read_bytes() == PNG
    assert Path("pics/sub.png").is_dir()
    assert Path("pics/jct.png").read_bytes() == PNG + b" chart"
    # A picture that was changed, or is another one of that name.
    Path("pics/jct.png").write_bytes(PNG)
    before = state(result.parent)
    assert "pics: holds jct.png, which ringbco did not write" in one_line(invoke(*report))
    assert state(result.parent) == before


def write_like(folder: Path, kind: OutputKind) -> None:
    """Files by which a folder is known as one of that kind."""
    made = {
        "result": {"summary.json": "{}", "run.toml": "[ringbco]", "jobs.parquet": "PAR1"},
        "comparison": {"comparison.json": '{"policies": [], "summaries": {}}', "comparison.parquet": "PAR1"},
        "pictures": {"jct.png": "a chart", "queue.png": "a chart"},
        "demo": {
            "comparison.json": "[]", "comparison.png": "a chart",
            "report.html": '<!DOCTYPE html><meta name="generator" content="ringbco report">',
        },
    }[kind.name]  # fmt: skip
    for name, text in made.items():
        (folder / name).write_text(text)
    if kind.within is not None:
        for name in ("fifo", "sjf"):
            with whole_folder(folder / name, force=False, kind=kind.within) as inner:
                write_like(inner, kind.within)


NAMES = (
    "photos", "holiday.png", "sub.png", "notes.txt", "jct.png", "fifo", "report.html", "jobs.parquet",
    "decisions.parquet", "comparison.json", "runs.parquet", "figure-4.png", "index.html", MANIFEST, "x.json",
    ".hidden", "ünï\udcff",
)  # fmt: skip


def plant(draw: random.Random, folder: Path, outside: Path, names: tuple[str, ...] = NAMES) -> list[Path]:
    """Puts up to four things of others into a folder, some in place of ours; where they are."""
    planted = []
    for name in draw.sample(names, draw.randrange(5)):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            path = path / "theirs"  # into a folder that is there, perhaps one of ours
        path.unlink(missing_ok=True)
        match draw.randrange(4):
            case 0:
                path.write_bytes(
                    draw.choice([b"mine", PNG, b"{}", b"PAR1 mine PAR1", b"<!DOCTYPE html>mine"])
                )
            case 1:
                (path / "deep" / "empty").mkdir(parents=True)
                (path / "deep" / "jct.png").write_bytes(PNG)
                (path / "summary.json").write_text("{}")
            case 2:
                path.symlink_to(draw.choice([outside, outside.parent]))
            case 3:
                path.symlink_to("nowhere")
        planted.append(path)
    return planted


@pytest.mark.parametrize("kind", [RESULT, COMPARISON, PICTURES, demo_kind()], ids=lambda kind: kind.name)
def test_no_folder_loses_a_byte_of_others(tmp_path: Path, kind: OutputKind) -> None:
    replaced = 0
    for seed in range(CASES // 4):
        draw = random.Random(seed)
        place = tmp_path / f"{seed}"
        place.mkdir()
        outside = place / "precious.txt"
        outside.write_text("precious")
        target = place / "out"
        if draw.random() < 0.8:
            with whole_folder(target, force=False, kind=kind) as partial:
                write_like(partial, kind)
            if draw.random() < 0.3:
                for manifest in target.rglob(MANIFEST):
                    manifest.unlink()
        else:
            target.mkdir()
        planted = plant(draw, target, outside)
        # In a folder without a manifest a file with a name of ours is ours.
        named = kind.files if not (target / MANIFEST).is_file() else ()
        theirs = state(outside)
        for path in planted:
            if not (
                path.name in named and path.parent == target and path.is_file() and not path.is_symlink()
            ):
                theirs |= state(path)
        before = state(place)
        force = draw.random() < 0.8
        said = ""
        try:
            with whole_folder(target, force=force, kind=kind) as partial:
                write_like(partial, kind)
        except InputError as error:
            said = str(error)
        if said:
            assert re.search(r"out(/\w+)?: (already exists|holds )", said)
            assert state(place) == before, (seed, planted)
        else:
            replaced += 1
            assert force
            assert theirs.items() <= state(place).items(), (seed, planted)
        assert sorted(os.listdir(place)) == ["out", "precious.txt"]
    assert 0 < replaced < CASES // 4
