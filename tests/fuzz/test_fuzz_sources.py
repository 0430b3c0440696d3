"""Raw traces of any kind, plain, compressed and in archives: converted, or refused in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import explained, fuzzed
from fuzz.damage import damaged_bytes, damaged_document, damaged_text
from raw import acme, elasticflow, gavel, helios, openb, pai, philly, pollux, slurm, spot_gpu, swf
from ringbco.sources import SOURCES, convert, get
from ringbco.sources import philly as philly_source
from ringbco.sources.source import Options

OWN: Final = "job,when,gpus,secs,extra\n" + "".join(
    f"j{i},{i * 7},{i % 4 + 1},{60 + i},x\n" for i in range(6)
)
_MODEL, _OTHER = list(gavel.THROUGHPUTS["v100"])[:2]
PAIRED: Final = {
    **gavel.THROUGHPUTS,
    "k80": {_MODEL: {"null": 3.0, _OTHER: [2.0, 1.0]}, _OTHER: {"null": 0.5}},
    "k80_unconsolidated": {_MODEL: {"null": 2.0}},
}
MAP: Final = {"job_id": "job", "submit_time": "when", "num_gpus": "gpus", "duration": "secs"}


@cache
def sound(name: str) -> dict[str, str]:
    """Small sound files of a source, by their names."""
    makers: dict[str, Callable[[], dict[str, str]]] = {
        "philly": lambda: philly.generate(good=3, each=0).files,
        "helios": lambda: helios.generate(good=6, each=0).files,
        "acme": lambda: acme.generate("kalos", good=6, each=0).files,
        "pai": lambda: pai.generate(good=6, each=0).files,
        "openb": lambda: openb.generate(good=6, each=0).files,
        "spot-gpu": lambda: spot_gpu.generate(good=6, each=0).files,
        "elasticflow": lambda: elasticflow.generate(good=6, each=0).files,
        "gavel": lambda: gavel.generate(good=6, each=0).files,
        "pollux": lambda: pollux.generate(good=6, each=0).files,
        "swf": lambda: swf.generate(good=6, each=0).files,
        "slurm": lambda: slurm.generate(good=6, each=0).files | {"nodes.txt": slurm.NODES},
        "csv": lambda: {"own.csv": OWN},
    }
    return makers[name]()


def _tar(files: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


ONE: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gz": lambda data: gzip.compress(data, 1),
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "bz2": lambda data: bz2.compress(data, 1),
}
ALL: Final[dict[str, Callable[[dict[str, bytes]], bytes]]] = {
    "tar": lambda files: _tar(files, "w"),
    "tar.gz": lambda files: _tar(files, "w:gz"),
    "zip": _zip,
}


@st.composite
def inputs(draw: Callable[[Any], Any], name: str) -> dict[str, bytes]:
    """Files of a source: one damaged, missing, swapped or empty; perhaps packed, and damaged again."""
    texts = sound(name)
    files = {file: text.encode() for file, text in texts.items()}
    at = draw(st.sampled_from(sorted(files)))
    match draw(st.sampled_from(("text", "text", "text", "bytes", "empty", "gone", "swapped"))):
        case "text" if name == "philly":
            document = draw(damaged_document(json.loads(texts[at])))
            files[at] = json.dumps(document).encode("utf-8", "surrogatepass")
        case "text":
            mark = {"swf": " ", "gavel": "\t", "slurm": "|"}.get(name, ",")
            files[at] = draw(
                damaged_text(texts[at], mark, first=0 if name != "swf" else texts[at].count("\n;"))
            )
        case "bytes":
            files[at] = draw(damaged_bytes(files[at]))
        case "empty":
            files[at] = b""
        case "gone" if len(files) > 1:
            del files[at]
        case "swapped":
            files[at] = draw(st.sampled_from(sorted(files.values())))
    packing = draw(st.sampled_from((None, None, None, None, *ONE, *ALL)))
    if packing in ONE:
        files = {f"{file}.{packing}": ONE[packing](data) for file, data in files.items()}
    elif packing in ALL:
        files = {f"all.{packing}": ALL[packing](files)}
    if packing is not None and draw(st.booleans()):
        at = draw(st.sampled_from(sorted(files)))
        files[at] = draw(damaged_bytes(files[at]))
    return files


@st.composite
def options(draw: Callable[[Any], Any], name: str, speeds: dict[str, Any]) -> Options:
    return Options(
        **speeds,
        strict=draw(st.sampled_from((False, False, False, True))),
        known_vcs="known-vcs" in get(name).options and draw(st.booleans()),
        want_cluster=draw(st.sampled_from((False, False, True))),
        column_map=MAP if name == "csv" else {},
        mode=draw(st.sampled_from((None, *philly_source.MODES))) if name in ("philly", "slurm") else None,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


def measured(folder: Path, name: str) -> dict[str, Any]:
    """What `convert` needs beside the files: where the speeds stand that were measured."""
    if name == "gavel":
        return {"throughputs": write(folder, "throughputs.json", json.dumps(gavel.THROUGHPUTS))}
    if name == "pollux":
        return {"profiles": pollux.write_profiles(folder)}
    return {}


def use(folder: Path, name: str, files: dict[str, bytes], options: Options) -> None:
    inside = folder / name
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir()
    paths = []
    for file, data in files.items():
        path = inside / Path(file).name
        path.write_bytes(data)
        paths.append(path)
    made = explained(lambda: convert(name, paths, options))
    if made is not None:
        assert made.table.num_jobs > 0


@pytest.mark.parametrize("name", SOURCES)
def test_raw_files(folder: Path, name: str) -> None:
    speeds = measured(folder, name)
    assert convert(
        name,
        [write(folder, f, t) for f, t in sound(name).items()],
        Options(column_map=MAP if name == "csv" else {}, **speeds),
    )

    @fuzzed
    @given(files=inputs(name), options=options(name, speeds))
    def cases(files: dict[str, bytes], options: Options) -> None:
        use(folder, name, files, options)

    cases()


@st.composite
def damaged_throughputs(draw: Callable[[Any], Any]) -> bytes:
    """Gavel's file of throughputs, its JSON damaged, or its bytes, plain or as gzip."""
    whole = json.dumps(PAIRED).encode()
    match draw(st.sampled_from(("inside", "inside", "bytes", "gzip"))):
        case "inside":
            return json.dumps(draw(damaged_document(PAIRED))).encode("utf-8", "surrogatepass")
        case "bytes":
            return draw(damaged_bytes(whole))  # type: ignore[no-any-return]
        case _:
            return draw(damaged_bytes(gzip.compress(whole, 1, mtime=0)))  # type: ignore[no-any-return]


def test_throughputs(folder: Path) -> None:
    path = folder / "throughputs.json"
    options = Options(throughputs=path)

    @fuzzed
    @given(data=damaged_throughputs())
    def cases(data: bytes) -> None:
        path.write_bytes(data)
        use(folder, "gavel", {file: text.encode() for file, text in sound("gavel").items()}, options)

    cases()


@pytest.mark.parametrize("file", sorted(pollux.PROFILES))
def test_profiles(folder: Path, file: str) -> None:
    profiles = folder / f"of-{file}"
    options = Options(profiles=pollux.write_profiles(profiles))
    text = pollux.PROFILES[file]
    damaged = st.one_of(damaged_text(text), damaged_text(text), damaged_bytes(text.encode()), st.none())

    @fuzzed
    @given(data=damaged)
    def cases(data: bytes | None) -> None:
        path = profiles / "profiles" / "toy" / file
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        use(folder, "pollux", {name: raw.encode() for name, raw in sound("pollux").items()}, options)

    cases()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / Path(name).name
    path.write_text(text)
    return path
