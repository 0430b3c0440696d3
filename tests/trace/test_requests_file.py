"""Tables of requests: what is read and what is refused."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

from frames import refusal
from ringbco.errors import InputError
from ringbco.trace.requests import COLUMNS, Requests
from ringbco.trace.serving import ServingFile
from ringbco.trace.side_table import ReadContext

TOKENS: Final[dict[str, Any]] = {
    "kind": "tokens", "gpus": 1, "step": 0.01, "prefill": 1e-4, "decode": 1e-3, "max_running": 8,
    "kv_tokens": 1000, "scale": "fixed", "replicas": 1,
}  # fmt: skip
BATCH: Final[dict[str, Any]] = {
    "kind": "batch", "gpus": 1, "seconds": [[1, 0.01]], "scale": "fixed", "replicas": 1
}  # fmt: skip
HEAD: Final = "service,arrival,input_tokens,output_tokens,cached_tokens"


def serving(**services: dict[str, Any]) -> ServingFile:
    return ServingFile.read(services)


BOTH: Final = serving(chat=TOKENS, search=BATCH)


def test_rows_in_any_order_and_tokens_only_where_they_count(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"{HEAD},more\nchat,2.5,300,20,100,x\nsearch,0,,,,\nchat,1,0,1,,\n")
    made = Requests.read(path, ReadContext(), serving=BOTH)
    assert made.frame.schema == {name: column.dtype for name, column in COLUMNS.items()}
    assert made.frame.rows() == [
        ("chat", 2.5, 300, 20, 100),
        ("search", 0, None, None, 0),
        ("chat", 1, 0, 1, 0),
    ]
    assert [column.tolist() for column in made.columns(BOTH)] == [
        [0, 1, 0], [2.5, 0.0, 1.0], [300, 0, 0], [20, 0, 1], [100, 0, 0],
    ]  # fmt: skip
    assert made.rows.tolist() == [0, 1, 2]
    assert (made.failed, made.notes) == (0, [])
    assert made.identity == {
        "path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "rows": 3
    }  # fmt: skip
    for given in (made, made.frame, made.frame.lazy(), made.frame.to_arrow(), made.frame.to_pandas()):
        assert Requests.read(given, ReadContext(), serving=BOTH).frame.equals(made.frame), type(given)


def test_without_a_column_service_all_are_of_the_only_one() -> None:
    frame = pl.DataFrame({"arrival": [1.0], "input_tokens": [5], "output_tokens": [2]})
    assert Requests.read(frame, serving=serving(chat=TOKENS)).frame["service"].to_list() == ["chat"]
    alone = Requests.read(pl.DataFrame({"arrival": [1, 2]}), serving=serving(search=BATCH))
    assert alone.frame["service"].to_list() == ["search", "search"]
    with pytest.raises(
        InputError,
        match="row 1, column service: null: expected the name of a table of <services>: chat, search",
    ):
        Requests.read(frame, serving=BOTH)


AZURE: Final = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:04.0319601,3180,8
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:18:03.9799600,110,27
"""


@pytest.mark.parametrize("known", [None, ReadContext(), ReadContext(epoch=datetime(2023, 11, 1, tzinfo=UTC))])
def test_azure_counts_from_its_first_request_in_whole_nanoseconds(
    tmp_path: Path, known: ReadContext | None
) -> None:
    """Whatever the clock of the jobs: 52,000,100 ns and 60 s after the second row."""
    path = tmp_path / "azure.csv"
    path.write_text(AZURE)
    made = Requests.read(path, known)
    assert made.frame["arrival"].to_list() == [52_000_100 / 1e9, 0.0, 60.0]
    assert made.frame.select("input_tokens", "output_tokens").rows() == [(3180, 8), (4808, 10), (110, 27)]
    times = pl.read_csv(path)["TIMESTAMP"].str.to_datetime(time_unit="ns")
    read = pl.read_csv(path).with_columns(TIMESTAMP=times)
    assert Requests.read(read, known).frame.equals(made.frame)
    seconds = pl.read_csv(path).with_columns(
        TIMESTAMP=pl.Series([1_700_000_002, 1_700_000_000, 1_700_000_007])
    )
    assert Requests.read(seconds, known).frame["arrival"].to_list() == [2.0, 0.0, 7.0]


def test_dates_of_arrivals_are_on_the_epoch_of_the_jobs() -> None:
    frame = pl.DataFrame({"arrival": ["2024-05-01T00:01:00Z", "2024-05-01 00:00:30.5"]})
    epoch = datetime(2024, 5, 1, tzinfo=UTC)
    assert Requests.read(frame, ReadContext(epoch=epoch)).frame["arrival"].to_list() == [60.0, 30.5]
    with pytest.raises(InputError, match="does not say on which date its clock begins"):
        Requests.read(frame, ReadContext())
    same = frame.with_columns(arrival=pl.Series(["2024-05-01 00:01:00", "2024-05-01 00:00:30.5"]))
    assert Requests.read(same).frame["arrival"].to_list() == [29.5, 0.0], "without jobs from the first"


BURST: Final = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,Conversation log
118,GPT-4,417,276,693,API log
"""


def test_burstgpt_leaves_failed_requests_out(tmp_path: Path) -> None:
    path = tmp_path / "burst.csv"
    path.write_text(BURST)
    keys = TOKENS | {"kv_tokens": 700}
    one = Requests.read(path, ReadContext(), serving=serving(all=keys))
    assert one.frame.rows() == [("all", 5.0, 472, 18, 0), ("all", 118.0, 417, 276, 0)]
    assert (one.rows.tolist(), one.failed) == ([0, 2], 1)
    assert one.notes == [f"{path}: 1 of 3 requests is left out: failed, with 0 response tokens"]
    assert one.identity["failed"] == 1
    each = Requests.read(path, ReadContext(), serving=serving(**{"GPT-4": keys, "ChatGPT": keys}))
    assert each.frame["service"].to_list() == ["ChatGPT", "GPT-4"], "each value names a table"
    part = Requests.read(path, ReadContext(), serving=serving(ChatGPT=keys))
    assert part.frame["service"].to_list() == ["ChatGPT", "ChatGPT"], "not each does, and there is one table"
    with pytest.raises(InputError) as caught:
        Requests.read(path, ReadContext(), serving=serving(ChatGPT=keys, **{"GPT4": keys}))
    told = "expected the name of a table of <services>: ChatGPT, GPT4; did you mean GPT4?"
    assert str(caught.value) == f"{path}: row 3 (line 4), column Model: GPT-4: {told}"
    with pytest.raises(InputError, match=r"row 3 .*column output_tokens: 276: expected with the 417 input"):
        Requests.read(one, ReadContext(), serving=serving(all=TOKENS | {"kv_tokens": 690}))
    path.write_text(
        "\n".join(line for line in BURST.split("\n") if "ChatGPT,472" not in line and "GPT-4" not in line)
    )
    with pytest.raises(InputError, match="holds failed requests alone"):
        Requests.read(path)


SECONDS: Final = "expected a finite number of seconds >= 0"
CHAT: Final = "; service chat counts tokens; drop the request"
NAMES: Final = "TIMESTAMP,ContextTokens,GeneratedTokens"
OUT: Final = "column output_tokens:"
TABLES: Final = "expected the name of a table of <services>: chat, search"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("chat,-1,1,1,", f"column arrival: -1: {SECONDS}; count"),
        ("chat,inf,1,1,", f"column arrival: inf: {SECONDS}; count"),
        ("chat,4294967297,1,1,", f"column arrival: 4294967297: {SECONDS} and <= 4294967296"),
        ("chat,,1,1,", f"column arrival: null: {SECONDS}; count"),
        ("chat,soon,1,1,", f"column arrival: soon: {SECONDS}; count"),
        ("chat,1,-1,1,", "column input_tokens: -1: expected an integer >= 0; drop the request"),
        ("chat,1,,1,", f"column input_tokens: null: expected an integer >= 0{CHAT}"),
        ("chat,1,1,0,", f"column output_tokens: 0: expected an integer >= 1{CHAT}"),
        ("chat,1,1,,", f"column output_tokens: null: expected an integer >= 1{CHAT}"),
        ("chat,1,1,1.5,", "column output_tokens: 1.5: expected an integer >= 0; drop the request"),
        ("chat,1,9,1,10", "column cached_tokens: 10: expected at most the input_tokens of the row, which"),
        ("chat,1,600,401,", f"{OUT} 401: expected with the 600 input_tokens at most 1000, chat.kv_tokens"),
        ("chat,1,4294967295,4294967295,", f"{OUT} 4294967295: expected with the 4294967295 input"),
        ("chta,1,1,1,", f"column service: chta: {TABLES}; did you mean chat?"),
        ("translate,1,1,1,", f"column service: translate: {TABLES}; write a table for it, or drop"),
        (",1,1,1,", f"column service: null: {TABLES}; write a table for it, or drop the request"),
    ],
)  # fmt: skip
def test_bad_rows(tmp_path: Path, row: str, told: str) -> None:
    """The line names the lowest row at fault: the one after it has a fault too."""
    text = f"{HEAD}\nsearch,0,0,0,5\n{row}\n,-1,-1,0,9\n"
    said = refusal(tmp_path / "r.csv", text, lambda path: Requests.read(path, ReadContext(), serving=BOTH))
    assert said.startswith(f"{tmp_path / 'r.csv'}: row 2 (line 3), {told}")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("service,arrival\nchat,1\n", "has no column input_tokens, output_tokens; requests have the"),
        ("input_tokens,output_tokens\n1,1\n", "has no column arrival; requests have the columns arrival"),
        (f"{HEAD}\n", "holds no requests, only column names"),
        (f"{NAMES}\n2023-11-16 18:61:50,1,1\n", "column TIMESTAMP: '2023-11-16 18:61:50': expected a"),
        (f"{NAMES}\n1,1,0\n", "column GeneratedTokens: 0: expected an integer >= 1"),
        (f"{NAMES}\n1,x,1\n", "column ContextTokens: x: expected an integer >= 0"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str, told: str) -> None:
    said = refusal(tmp_path / "r.csv", text, lambda path: Requests.read(path, serving=serving(chat=TOKENS)))
    assert told in said


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_there_and_back(tmp_path: Path, ending: str) -> None:
    given = pl.DataFrame(
        {"arrival": [1 / 3, 2.0**32], "input_tokens": [0, 7], "output_tokens": [1, 2**32 - 1]}
    )
    made, path = Requests.read(given), tmp_path / f"r.{ending}"
    made.write(path)
    assert Requests.read(path).frame.equals(made.frame)
    assert made.written.columns == ["arrival", "input_tokens", "output_tokens"]
    made.write(path, force=True)


def test_milliseconds_are_asked_about() -> None:
    """The bounds are above all public traces: 31 d, and half of the gaps above a minute."""
    day = 86_400.0
    slow = pl.DataFrame({"arrival": [0.0, 61.0, 122.0, 31 * day + 1]})
    assert len(Requests.read(slow).notes) == 1
    assert "is it in milliseconds? Then they are over 44.6 min" in Requests.read(slow).notes[0]
    for times in ([0.0, 61.0, 122.0, 31 * day], [0.0, 59.0, 118.0, 40 * day]):
        assert Requests.read(pl.DataFrame({"arrival": times})).notes == []
