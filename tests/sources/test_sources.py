"""What all sources share: the registry, recognising files, unpacking them, the account."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
import zipfile
from collections import Counter
from itertools import permutations
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from raw import Raw, acme, elasticflow, gavel, helios, openb, pai, philly, pollux, slurm, spot_gpu, swf
from raw.agreement import agrees, converted, gzipped
from ringbco.errors import InputError, RingbcoError, UsageError
from ringbco.sources import SOURCES, convert, get
from ringbco.sources.account import ROW, Account, Entry, change, clean, drop, note
from ringbco.sources.source import Options

MADE: dict[str, Raw] = {
    "philly": philly.generate(),
    "helios": helios.generate(),
    "acme": acme.generate("kalos"),
    "pai": pai.generate(),
    "openb": openb.generate(),
    "spot-gpu": spot_gpu.generate(),
    "elasticflow": elasticflow.generate(),
    "gavel": gavel.generate(),
    "pollux": pollux.generate(),
    "swf": swf.generate(),
    "slurm": slurm.generate(),
}
DOCS = Path(__file__).parents[2] / "docs" / "sources"


def measured(source: str, folder: Path) -> dict[str, Path]:
    """What a source takes beside its files, written into `folder`."""
    if source == "gavel":
        (folder / "throughputs.json").write_text(json.dumps(gavel.THROUGHPUTS))
        return {"throughputs": folder / "throughputs.json"}
    return {"profiles": pollux.write_profiles(folder)} if source == "pollux" else {}


def refusal(source: str, *paths: Path, **options: object) -> RingbcoError:
    with pytest.raises(RingbcoError) as caught:
        convert(source, paths, Options(**options))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_source_is_documented_and_generated() -> None:
    assert set(MADE) == set(SOURCES) - {"csv"}
    for name, module in SOURCES.items():
        source = get(name)
        assert source.name == name
        page = (DOCS / f"{name}.md").read_text()
        assert source.url in page
        assert source.licence in page
        assert Path(__file__).with_name(f"test_source_{module}.py").exists()
        assert source.citation.startswith("@") or name == "csv"


def test_an_unknown_source_is_told_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no source hellios: choose one of slurm, .* did you mean helios"):
        get("hellios")


@pytest.mark.parametrize(("source", "given"), list(permutations(MADE, 2)))
def test_files_of_another_source_are_named(source: str, given: str, tmp_path: Path) -> None:
    """Every file of a source is recognised as its own and offered to it when another one is asked for."""
    files = [path for path in MADE[source].write(tmp_path) if path.suffix != ".header"]
    assert files
    for path in files:
        error = refusal(given, path)
        assert isinstance(error, InputError)
        assert f"use `ringbco convert {source} ...`" in str(error)
        assert str(error).startswith(f"{path}: looks like ")


@pytest.mark.parametrize("source", ["helios", "acme", "openb", "spot-gpu", "elasticflow"])
def test_a_lost_header_is_put_back(source: str, tmp_path: Path) -> None:
    raw = MADE[source]
    name, text = next(iter(raw.files.items()))
    agrees(converted(source, Raw({name: text.split("\n", 1)[1]}, **rest(raw)), tmp_path), raw)


def rest(raw: Raw) -> dict[str, object]:
    return {key: value for key, value in vars(raw).items() if key != "files"}


@pytest.mark.parametrize("source", MADE)
def test_a_byte_order_mark_and_crlf_change_nothing(source: str, tmp_path: Path) -> None:
    raw = MADE[source]
    files = {name: "\ufeff" + text.replace("\n", "\r\n") for name, text in raw.files.items()}
    converted(source, Raw(files, **rest(raw)), tmp_path, **measured(source, tmp_path))


@pytest.mark.parametrize("source", MADE)
def test_gzip(source: str, tmp_path: Path) -> None:
    raw = MADE[source]
    options = Options(**measured(source, tmp_path))  # type: ignore[arg-type]
    agrees(convert(source, gzipped(raw.write(tmp_path)), options), raw)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2"])
@pytest.mark.parametrize("source", ["helios", "philly"])
def test_compressed_files_and_tar_archives(source: str, codec: str, tmp_path: Path) -> None:
    raw = MADE[source]
    paths = raw.write(tmp_path)
    squeezed = []
    for path in paths:
        target = tmp_path / f"{path.name}.packed"  # the name says nothing: content decides
        target.write_bytes(compress(path.read_bytes(), codec))
        squeezed.append(target)
    agrees(convert(source, squeezed), raw)

    plain = tmp_path / "trace.tar"
    with tarfile.open(plain, "w") as archive:
        (tmp_path / "gpu_util").write_text("time,machine,util\n" + "2017,m1,3\n" * 20_000)
        archive.add(tmp_path / "gpu_util", "trace/cluster_gpu_util")
        for path in paths:
            archive.add(path, f"./trace/{path.name}")
    packed = tmp_path / "trace.tar.packed"
    packed.write_bytes(compress(plain.read_bytes(), codec))
    agrees(convert(source, [plain]), raw)
    agrees(convert(source, [packed]), raw)


def compress(data: bytes, codec: str) -> bytes:
    if codec == "bz2":
        import bz2

        return bz2.compress(data)
    return bytes(pa.compress(data, codec=codec, asbytes=True))


def test_zip(tmp_path: Path) -> None:
    raw = MADE["helios"]
    packed = tmp_path / "data.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._cluster_log.csv", b"\0\5")
        archive.mkdir("Venus")
        archive.writestr("Venus/README.txt", "hello")
        for path in raw.write(tmp_path):
            archive.write(path, f"Venus/{path.name}")
    agrees(convert("helios", [packed]), raw)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2"])
def test_a_cut_off_download_is_named(codec: str, tmp_path: Path) -> None:
    text = "".join(f"{random.Random(i).random()}\n" for i in range(20_000))
    whole = compress(text.encode(), codec)
    for cut in (len(whole) // 2, len(whole) - 4):
        path = tmp_path / "cluster_log.csv"
        path.write_bytes(whole[:cut])
        assert str(refusal("helios", path)) == (
            f"{path}: is a {codec} file that ends too early; fetch it again: "
            "the download was cut off or altered"
        )


def test_a_cut_off_archive_is_named(tmp_path: Path) -> None:
    [path, _] = MADE["helios"].write(tmp_path)
    packed = tmp_path / "log.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(path, path.name)
    data = packed.read_bytes()
    packed.write_bytes(data[: len(data) * 2 // 3])
    assert "ends too early" in str(refusal("helios", packed))
    with tarfile.open(packed, "w") as archive:
        archive.add(path, path.name)
    data = packed.read_bytes()
    packed.write_bytes(data[:2000])
    assert "is a tar file that ends too early" in str(refusal("helios", packed))


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:10] + b"\xff" * 300)
    assert "is a gzip file that is damaged" in str(refusal("helios", path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is an empty file"),
        (b"  \n\n", "is an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "is a Git LFS pointer, not"),
        (b"<!DOCTYPE html>\n<html><title>404</title>", "is an HTML page, not a trace"),
        (b"\n<html>", "is an HTML page, not a trace"),
        (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', "is an XML page"),
        (b"PAR1" + b"\0" * 40, "is binary data, not a trace"),
        (b"\x7fELF\0\0\1", "is binary data, not a trace"),
        ("job_id,user".encode("utf-16"), "is UTF-16 text"),
        (b"once upon a time\n", "is not a file of "),
        (b"[1, 2, 3]", "is not a file of "),
    ],
)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_no_trace_is_named(source: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "download"
    path.write_bytes(content)
    error = refusal(source, path)
    assert isinstance(error, InputError)
    assert str(error).startswith(f"{path}: {message}")
    assert error.exit_code == 1


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    assert "no such file" in str(refusal("helios", tmp_path / "nothing"))
    assert "is a folder, not a file; name the files in it" in str(refusal("helios", tmp_path))
    assert isinstance(refusal("helios"), UsageError)


def test_an_archive_without_a_trace_is_named(tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("empty.csv", "")
    assert str(refusal("helios", packed)) == f"{packed}: is an archive that holds empty.csv, no trace"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("made.swf", MADE["swf"].files["made.swf"])
    assert f"{packed}/made.swf: looks like a log in the Standard Workload Format" in str(
        refusal("helios", packed)
    )


def test_a_job_table_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_time,num_gpus,duration\na,0,1,1\n")
    assert "is a job table already; give it to `ringbco replay`" in str(refusal("helios", path))


def test_a_misspelt_column_is_named_with_its_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(MADE["helios"].files["cluster_log.csv"].replace("gpu_num", "gpus_num"))
    assert str(refusal("helios", path)) == (
        f"{path}: is a Helios job log (cluster_log.csv) without the column gpu_num; is it gpus_num? Rename it"
    )
    path.write_text(MADE["openb"].files["openb_pod_list_made.csv"].replace("deletion_time", "gone"))
    assert "without the column deletion_time; its columns are name, cpu_milli," in str(refusal("openb", path))


def test_two_files_of_one_kind_and_a_missing_one(tmp_path: Path) -> None:
    paths = MADE["helios"].write(tmp_path)
    assert "are both a Helios job log (cluster_log.csv); convert them one by one" in str(
        refusal("helios", paths[0], paths[0])
    )
    error = refusal("helios", paths[1])
    assert isinstance(error, UsageError)
    assert str(error) == (
        f"convert helios: give a Helios job log (cluster_log.csv) as well: {paths[1]} is a Helios table of"
        " GPUs per virtual cluster and day (cluster_gpu_number.csv), which holds no jobs"
    )


@pytest.mark.parametrize("source", ["helios", "pai", "openb", "spot-gpu"])
def test_a_row_with_too_many_cells_is_dropped(source: str, tmp_path: Path) -> None:
    raw = MADE[source]
    name, text = next(iter(raw.files.items()))
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if raw.jobs[3]["job_id"] in line.split(","))
    width = lines[at].count(",") + 1
    lines[at] += ",1,2"
    jobs = [job for job in raw.jobs if job is not raw.jobs[3]]
    dropped = raw.dropped + Counter({"more cells than columns": 1})
    changed = Raw({**raw.files, name: "\n".join(lines)}, raw.rows_read, jobs, dropped, raw.changed, raw.noted)
    converted(source, changed, tmp_path)
    (tmp_path / name).write_text(f"{lines[0]}\n{lines[at]}\n")
    error = refusal(source, *(tmp_path / n for n in raw.files), strict=True)
    assert "column (the row): " in str(error)
    assert lines[at][:20] in str(error)
    assert f"expected {width} cells; without --strict: dropped, more cells than columns" in str(error)


def test_bytes_that_are_no_utf_8_name_the_line(tmp_path: Path) -> None:
    data = MADE["helios"].files["cluster_log.csv"].encode().replace(b"uAAAA", b"u\xff\xfeAA", 1)
    path = tmp_path / "log.csv"
    path.write_bytes(data)
    line = data[: data.index(b"\xff")].count(b"\n") + 1
    assert f"{path}: line {line}: " in str(refusal("helios", path))
    assert "expected UTF-8 text; save the file as UTF-8" in str(refusal("helios", path))


def test_a_file_cut_in_the_middle_of_a_row_loses_that_row_only(tmp_path: Path) -> None:
    raw = helios.generate(good=5, each=0)
    text = raw.files["cluster_log.csv"].rstrip("\n")
    path = tmp_path / "log.csv"
    path.write_text(text[:-12])
    account = convert("helios", [path]).account
    assert (account.rows_read, account.rows_kept) == (5, 4)
    assert account.dropped == {"end_time missing or unreadable": 1}


def test_a_trace_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(",".join(helios.COLUMNS) + "\n")
    assert "has a header but no jobs" in str(refusal("helios", path))
    path.write_text(",".join(helios.COLUMNS) + "\n1,u,v,0,1,1,COMPLETED,,,,0,0\n")
    assert str(refusal("helios", path)) == (
        f"{path}: none of its 1 jobs can be kept; dropped: 1 {helios.CPU} (line 2: 0)"
    )


def test_options_of_another_source_are_refused(tmp_path: Path) -> None:
    [path] = MADE["swf"].write(tmp_path)
    assert str(refusal("swf", path, mode="span")) == "--mode is not an option of swf"
    assert str(refusal("swf", path, snapshot="2020-09-01")) == "--snapshot is not an option of swf"
    assert str(refusal("swf", path, column_map={"job_id": "id"})) == "--map is not an option of swf"


FRAME = pl.DataFrame(
    {ROW: [0, 1, 2, 3, 5], "job_id": ["a", "b", "a", "c", "b"], "x": [1.0, -1.0, 3.0, None, 5.0]},
    schema_overrides={ROW: pl.UInt32},
)
RULES = (
    drop("negative", pl.col("x") < 0, "x", "a number from 0"),
    drop("small", pl.col("x") < 2, "x", "a number from 2"),
    change("large", pl.col("x") > 4, "x", "at most 4", x=pl.lit(4.0)),
    note("empty", pl.col("x").is_null(), "x"),
)


def test_rows_go_for_their_first_reason_and_duplicates_for_a_kept_one() -> None:
    cells = dict(enumerate("abcdefg"))
    kept, account = clean(
        FRAME, RULES, unit="rows", file="f", locate=lambda row, column: (row, row + 2, cells[row])
    )
    # "a" and "b" occur twice, but their first rows are dropped.
    assert kept["job_id"].to_list() == ["a", "c", "b"]
    assert kept["x"].to_list() == [3.0, None, 4.0]
    assert account.entries == (
        Entry("dropped", "negative", 1, 1, 3, "b"),
        Entry("dropped", "small", 1, 2, 2, "a"),
        Entry("changed", "large", 1, 1, 7, "f"),
        Entry("noted", "empty", 1, 1, 5, "d"),
    )
    assert (account.rows_read, account.rows_kept) == (5, 3)
    kept, account = clean(FRAME, (), unit="rows", file="f", locate=lambda row, column: (row, None, 0))
    assert kept["job_id"].to_list() == ["a", "b", "c"]
    assert account.dropped == {"job_id occurred before": 2}


def test_strict_names_the_first_row_of_the_file_that_any_rule_meets() -> None:
    def locate(row: int, column: str) -> tuple[int, int | None, object]:
        return row + 1, row + 10, f"cell {column}"

    with pytest.raises(InputError) as caught:
        clean(FRAME, RULES, unit="rows", file="f", locate=locate, strict=True)
    assert str(caught.value) == (
        "f: row 1 (line 10), column x: 'cell x': expected a number from 2; without --strict: dropped, small"
    )
    with pytest.raises(InputError, match=r"row 6 .* expected at most 4; without --strict: changed, large"):
        clean(FRAME, RULES[2:3], unit="rows", file="f", locate=locate, strict=True, unique="x")
    clean(FRAME, RULES[3:], unit="rows", file="f", locate=locate, strict=True, unique="x")


def test_the_account_survives_its_footer() -> None:
    account = Account(
        "pods", 5, 3, (Entry("dropped", "why\u2019 not", 2, 4, 7, "x"), Entry("noted", "n", 1, 1))
    )
    metadata = account.to_metadata()
    assert all(isinstance(value, str) for value in metadata.values())
    assert Account.from_metadata(metadata) == account
    assert Account.from_metadata({}) is None
    assert Account.from_metadata({"ringbco.account": "{"}) is None
    assert Account.from_metadata({"ringbco.account": json.dumps({"unit": "x"})}) is None
    with pytest.raises(ValueError, match="1 rows are neither kept nor dropped"):
        Account("pods", 5, 2, account.entries)


@pytest.mark.parametrize("source", MADE)
def test_random_damage_is_either_accounted_for_or_named(source: str, tmp_path: Path) -> None:
    """Whatever happens to a file, the outcome is a sound account or one line."""
    raw = MADE[source]
    main = next(iter(raw.files))
    text = raw.files[main].encode()
    rng = random.Random(f"{source} 0")
    outcomes: Counter[str] = Counter()
    options = Options(**measured(source, tmp_path))  # type: ignore[arg-type]
    for _ in range(20):
        data = bytearray(text)
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(data))
            match rng.randrange(5):
                case 0:
                    del data[at:]
                    data += b"x"
                case 1:
                    data[at] = rng.randrange(256)
                case 2:
                    del data[at : at + rng.randrange(300)]
                    data += b"x"
                case 3:
                    data[at:at] = rng.choice([b'"', b",", b"\n", b"\r", b"\0", b"{", b"]", b";", b"\\"])
                case 4:
                    data[at:at] = data[at // 2 : at // 2 + 200]
        paths = raw.write(tmp_path)
        paths[0].write_bytes(bytes(data))
        try:
            account = convert(source, paths, options).account
            assert account.rows_kept > 0
            outcomes["converted"] += 1
        except RingbcoError as error:
            outcomes["refused" if str(error).isprintable() else "ugly"] += 1
    assert outcomes["converted"] > 0
    assert not outcomes["ugly"]
