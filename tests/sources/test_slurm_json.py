"""`sacct --json`: read a part at a time as it is read whole, and as `sacct -P` of the same jobs."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from raw import slurm
from ringbco.errors import InputError
from ringbco.sources import convert, json_stream
from ringbco.sources.json_stream import JobsOfJson
from ringbco.sources.opening import Opened

ODD = re.compile(r"\|extra$|^\d+\.|\|(a week|soon|few|high)(\||$)|\|best, so far\|")


def drawn(rng: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """A document, and its jobs: some hold arrays of objects that begin as a job does, and words of JSON."""
    key = rng.choice(["job_id", 'a "b', "x"])
    words = ["", '}, {"x":', "\n", '\\" },\n {', "é", "[" * 3]

    def thing(depth: int) -> Any:
        if depth and rng.random() < 0.7:
            return [
                {key: thing(depth - 1), "x": rng.choice(words)} if rng.random() < 0.8 else rng.random()
                for _ in range(rng.randrange(4))
            ]
        return rng.choice([*words, 7, None])

    jobs = [{key: number // 2, "steps": thing(3)} for number in range(rng.randrange(30))]
    around = {"meta": {"slurm": {"jobs": 3}}, "jobs": jobs, "errors": [], "warnings": [{"x": "jobs"}]}
    names = rng.sample(sorted(around), len(around))
    return (
        json.dumps(
            {name: around[name] for name in names},
            indent=rng.choice([None, 1, 4]),
            separators=rng.choice([(",", ":"), (" , ", " : ")]),
        ),
        jobs,
    )


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_the_whole(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    text, jobs = drawn(rng)
    log = tmp_path / "log.json"
    log.write_bytes(rng.choice([b"", b"\xef\xbb\xbf"]) + text.encode())
    monkeypatch.setattr(json_stream, "_PART", rng.choice([150, 400, 1 << 20]))
    read = JobsOfJson(Opened(log, "log.json", ""), "sacct --json")
    parts = [[bytes(job) for job in part] for part in read.parts()]
    assert [json.loads(job) for part in parts for job in part] == jobs
    at, lines = 0, []
    for job in (job.decode() for part in parts for job in part):
        at = text.index(job, at)
        lines.append(text.count("\n", 0, at) + 1)
        at += len(job)
    assert read.lines == lines


def large(tmp_path: Path) -> tuple[Path, str]:
    """A log of many parts of 2,000 bytes, and its text."""
    log = tmp_path / "log.json"
    slurm.write_large_json(log, 50)
    return log, log.read_text()


def test_memory_holds_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, text = large(tmp_path)
    monkeypatch.setattr(json_stream, "_PART", 10_000)
    parts = list(JobsOfJson(Opened(log, "log.json", ""), "sacct --json").parts())
    assert sum(map(len, parts)) == 50
    assert len(parts) > len(text) / 30_000
    assert max(map(len, parts)) < 6


def test_what_is_no_document_is_refused_in_any_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, text = large(tmp_path)
    monkeypatch.setattr(json_stream, "_PART", 10_000)
    middle = text.index('"steps"', len(text) // 2)
    for broken in (
        text[: middle - 40],  # cut off
        text[:middle] + "?" + text[middle:],
        text.rstrip()[:-1],  # the document has no end
        text.replace('"meta"', "meta"),
    ):
        log.write_text(broken)
        with pytest.raises(InputError, match=r"log\.json: is no output of sacct --json \(.*export it again"):
            convert("slurm", [log])
    log.write_text(text[:middle] + '"cluster": 7, ' + text[middle:])
    with pytest.raises(InputError, match=r"log\.json: row \d\d: .*a job as sacct --json has it .*cluster"):
        convert("slurm", [log])


@pytest.mark.parametrize("seed", range(3))
def test_json_and_text_are_one_log(seed: int, tmp_path: Path) -> None:
    """Of every row that JSON can say: it has no odd texts, and its steps stand within their jobs."""
    [path] = slurm.generate(seed, each=3).write(tmp_path)
    header, *lines = path.read_text().splitlines()
    rows = [line for line in lines if not ODD.search(line)]
    assert len(rows) > 0.7 * len(lines)
    path.write_text("\n".join((header, *rows)) + "\n")
    jobs = [slurm.as_json(dict(zip(slurm.COLUMNS, row.split("|"), strict=True))) for row in rows]
    (tmp_path / "log.json").write_text(json.dumps({"jobs": jobs}))
    text, document = (convert("slurm", [file]) for file in (path, tmp_path / "log.json"))
    assert text.table.frame.to_dicts() == document.table.frame.to_dicts()
    assert text.account.rows_read == document.account.rows_read == len(rows)
    assert len(text.account.dropped) > 10
    for part in ("dropped", "changed", "noted"):
        assert getattr(text.account, part) == getattr(document.account, part)
    assert document.epoch == text.epoch + "Z"
