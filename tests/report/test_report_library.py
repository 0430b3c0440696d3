"""The drawing library of a page: what is kept of it, and what happens when that is not to be trusted."""

from __future__ import annotations

import gzip
from importlib.metadata import version
from pathlib import Path

import altair as alt
import pytest
import vl_convert

from ringbco.reports.library import library

BUNDLE = "const kept = 'bundled';"


@pytest.fixture(autouse=True)
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """The calls of vl-convert's bundler, which gives a short text here; the cache is in `tmp_path`."""
    calls: list[tuple[str, str]] = []

    def bundle(entry: str, speaks: str) -> str:
        calls.append((entry, speaks))
        return BUNDLE

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache" / "ringbco").iterdir()
    return file


def test_it_is_bundled_once_for_the_version_that_altair_speaks(bundled: list[tuple[str, str]]) -> None:
    assert [library(), library(), library()] == [BUNDLE] * 3
    ((entry, speaks),) = bundled
    assert "vegaEmbed" in entry
    assert alt.SCHEMA_VERSION.startswith(f"v{speaks}.")
    assert speaks in vl_convert.get_vegalite_versions()


def test_its_file_names_the_versions(tmp_path: Path) -> None:
    library()
    name = kept(tmp_path).name
    assert f"vl-convert-{version('vl-convert-python')}.js.gz" in name
    assert gzip.decompress(kept(tmp_path).read_bytes()).decode() == BUNDLE


@pytest.mark.parametrize("bytes_left", [0, 1, 9, 12, -1])
def test_a_file_cut_short_is_made_again(
    tmp_path: Path, bundled: list[tuple[str, str]], bytes_left: int
) -> None:
    library()
    whole = kept(tmp_path).read_bytes()
    kept(tmp_path).write_bytes(whole[:bytes_left])
    assert library() == BUNDLE
    assert len(bundled) == 2
    assert kept(tmp_path).read_bytes() == whole


@pytest.mark.parametrize("place", range(10, 31, 3))
def test_a_flipped_bit_is_never_put_into_a_page(
    tmp_path: Path, bundled: list[tuple[str, str]], place: int
) -> None:
    library()
    damaged = bytearray(kept(tmp_path).read_bytes())
    damaged[place] ^= 0x10
    kept(tmp_path).write_bytes(damaged)
    assert library() == BUNDLE
    assert len(bundled) == 2


def test_another_text_than_utf8_is_made_again(tmp_path: Path, bundled: list[tuple[str, str]]) -> None:
    library()
    kept(tmp_path).write_bytes(gzip.compress(b"\xff\xfe"))
    assert library() == BUNDLE
    assert len(bundled) == 2


def test_a_cache_that_cannot_be_written_costs_only_the_bundling(
    tmp_path: Path, bundled: list[tuple[str, str]]
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert [library(), library()] == [BUNDLE] * 2
    assert len(bundled) == 2
    assert (tmp_path / "cache").is_file()


def test_who_has_no_home_has_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bundled: list[tuple[str, str]]
) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/and/ignored")
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.chdir(tmp_path)
    assert [library(), library()] == [BUNDLE] * 2
    assert len(bundled) == 2
    assert not list(tmp_path.iterdir())
