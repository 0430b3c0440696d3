"""Serving files: what is read and what is refused, by key."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.serving import (
    BatchKind,
    FileScale,
    FixedScale,
    Objectives,
    ServiceKeys,
    ServingFile,
    TargetScale,
    TokenKind,
)

TOKENS: Final[dict[str, Any]] = {
    "kind": "tokens", "gpus": 1, "step": 0.01, "prefill": 1e-4, "decode": 1e-3, "max_running": 8,
    "kv_tokens": 1000, "scale": "fixed", "replicas": 2,
}  # fmt: skip
BATCH: Final[dict[str, Any]] = {
    "kind": "batch", "gpus": 2, "seconds": [[1, 0.01], [8, 0.03]], "scale": "target", "min": 0, "max": 4,
    "target": 2.5,
}  # fmt: skip

FILE: Final = """
[chat]
kind = "tokens"
gpus = 4
startup = 90
drain = 0
step = 0.012
prefill = 6e-5
decode = 2.5e-4
context = 1e-8
max_running = 128
kv_tokens = 300000
max_step_tokens = 2048
scale = "target"
min = 1
max = 12
target = 24
every = 15
tolerance = 0
down_after = 0
slo = {first_token = 1, per_token = 0.05}

[search]
kind = "batch"
gpus = 1
seconds = [[1, 0.010], [8, 0.030], [32, 0.1]]
max_wait = 0.02
scale = "file"
counts = "counts.csv"
slo = {latency = 0.2}

["embed 2"]
kind = "batch"
gpus = 1
seconds = [[4, 1]]
scale = "fixed"
replicas = 3
"""
COUNTS: Final = "service,time,replicas\nsearch,3600,2\nother,0,9\nsearch,-0.0,1\n"


def refused(document: dict[str, Any], **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        ServingFile.read(document, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_and_its_default(tmp_path: Path) -> None:
    path = tmp_path / "serving.toml"
    path.write_text(FILE)
    (tmp_path / "counts.csv").write_text(COUNTS)
    made = ServingFile.read(path)
    assert (made.names, made.source) == (["chat", "search", "embed 2"], str(path))
    assert made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    chat, search, embed = made.services
    assert vars(chat) == {
        "name": "chat", "gpus": 4, "startup": 90.0, "drain": 0.0,
        "kind": TokenKind(0.012, 6e-5, 2.5e-4, 128, 300_000, 1e-8, 2048),
        "scale": TargetScale(1, 12, 24.0, 15.0, 0.0, 0.0),
        "slo": Objectives(first_token=1.0, per_token=0.05),
    }  # fmt: skip
    assert chat.slo is not None
    assert chat.slo.given() == {"first_token": 1.0, "per_token": 0.05}
    assert search.kind == BatchKind(((1, 0.01), (8, 0.03), (32, 0.1)), 0.02)
    assert isinstance(search.scale, FileScale)
    assert search.scale.table.rows() == [("search", 3600.0, 2), ("search", 0.0, 1)]
    assert embed.kind == BatchKind(((4, 1.0),), 0.0)
    assert (embed.kind.largest, embed.scale, embed.slo) == (4, FixedScale(3), None)
    assert (embed.startup, embed.drain) == (0.0, 60.0)
    least = ServingFile.read({"a": TOKENS, "b": BATCH}).services
    assert least[0].kind == TokenKind(0.01, 1e-4, 1e-3, 8, 1000, 0.0, None)
    assert least[1].scale == TargetScale(0, 4, 2.5, 30.0, 0.1, 300.0)


def test_dates_of_counts_are_on_the_epoch(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("service,time,replicas\na,2024-05-02,1\n")
    document = {"a": {**TOKENS, "scale": "file", "counts": str(tmp_path / "c.csv")}}
    del document["a"]["replicas"]
    scale = ServingFile.read(document, datetime(2024, 5, 1, tzinfo=UTC)).services[0].scale
    assert isinstance(scale, FileScale)
    assert scale.table["time"].to_list() == [86_400.0]
    assert "does not say on which date its clock begins" in refused(document)


def elsewhere(key: str, value: str, option: str, here: str, there: str) -> tuple[dict[str, Any], str]:
    """A key of another kind or scale, and what is said."""
    told = f'expected no such key where {option} = "{here}"; it belongs to {option} = "{there}"'
    return {key: value.strip('"') if '"' in value else int(value)}, f"a.{key}: {value}: {told}"


HEAD: Final = "service,time,replicas"
NAMED: Final = "expected a table with rows of service a"
ANY: Final = "expected only the keys kind, gpus, startup, drain, scale, slo"
SECONDS: Final = "expected a finite number of seconds"
PAIR: Final = "expected a pair [batch size, seconds]"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"kind": None}, 'a.kind: expected "batch" or "tokens"; see'),
        ({"kind": "token"}, 'a.kind: "token": expected "batch" or "tokens"; did you mean tokens?'),
        ({"kind": 3}, 'a.kind: 3: expected "batch" or "tokens"; see'),
        ({"scale": None}, 'a.scale: expected "fixed" or "file" or "target"; see'),
        ({"scale": "targets"}, 'a.scale: "targets": expected "fixed" or "file" or "target"; did'),
        ({"stpe": 1}, f"a.stpe: {ANY}, step, prefill, decode, context, max_running, kv_tokens, max"),
        ({"stpe": 1}, "replicas; did you mean step?"),
        elsewhere("max_wait", '1', "kind", "tokens", "batch"),
        elsewhere("target", '1', "scale", "fixed", "target"),
        elsewhere("counts", '"f"', "scale", "fixed", "file"),
        ({"gpus": None}, "a.gpus: expected an integer >= 1; every service needs it"),
        ({"step": None}, f'a.step: {SECONDS} > 0; kind = "tokens" needs it'),
        ({"prefill": None}, f'a.prefill: {SECONDS} >= 0; kind = "tokens" needs it'),
        ({"replicas": None}, 'a.replicas: expected an integer >= 1; scale = "fixed" needs it'),
        ({"step": 0}, f"a.step: 0: {SECONDS} > 0; see docs/serving.md"),
        ({"step": "1ms"}, f"a.step: \"1ms\": {SECONDS} > 0"),
        ({"step": True}, f"a.step: true: {SECONDS} > 0"),
        ({"step": float("nan")}, f"a.step: NaN: {SECONDS} > 0"),
        ({"step": float("inf")}, f"a.step: inf: {SECONDS} > 0"),
        ({"step": 1e10}, f"a.step: 10000000000: {SECONDS} > 0 and <= 4294967296"),
        *(({name: -1}, f"a.{name}: -1: {SECONDS} >= 0") for name in ("prefill", "decode", "context")),
        *(({name: -1}, f"a.{name}: -1: {SECONDS} >= 0") for name in ("startup", "drain")),
        *(
            ({name: value}, f"a.{name}: {value}: expected an integer >= 1")
            for name in ("gpus", "max_running", "kv_tokens", "max_step_tokens", "replicas")
            for value in (0, 1.5)
        ),
        ({"gpus": 2**32}, "a.gpus: 4294967296: expected an integer >= 1 and <= 4294967295"),
        ({"gpus": 10**400}, "a.gpus: 1000"),
        ({"step": 10**400}, "a.step: 1000"),
        ({"slo": 3}, "a.slo: 3: expected a table of objectives such as {latency = 0.2}"),
        ({"slo": {}}, "a.slo: {}: expected a table of objectives"),
        ({"slo": {"latecy": 1}}, "a.slo.latecy: expected only the keys latency, first_token, per_token; did"),
        ({"slo": {"latency": -1}}, f"a.slo.latency: -1: {SECONDS} >= 0"),
    ],
)  # fmt: skip
def test_bad_keys_of_token_services(keys: dict[str, Any], told: str) -> None:
    table = {name: value for name, value in (TOKENS | keys).items() if value is not None}
    said = refused({"a": table})
    assert said.startswith("<services>: a.")
    assert told in said


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"seconds": None}, "a.seconds: expected a list of pairs [batch size, seconds], such as"),
        ({"seconds": []}, "a.seconds: []: expected a list of pairs"),
        ({"seconds": 0.1}, "a.seconds: 0.1: expected a list of pairs"),
        ({"seconds": [1, 0.1]}, f"a.seconds[0]: 1: {PAIR}"),
        ({"seconds": [[1, 0.1], [2]]}, f"a.seconds[1]: [2]: {PAIR}"),
        ({"seconds": [[1.0, 0.1]]}, f"a.seconds[0]: [1.0, 0.1]: {PAIR}"),
        ({"seconds": [[True, 0.1]]}, f"a.seconds[0]: [True, 0.1]: {PAIR}"),
        ({"seconds": [[0, 0.1]]}, "a.seconds[0]: [0, 0.1]: expected a batch size >= 1"),
        ({"seconds": [[1, 0.0]]}, f"a.seconds[0]: [1, 0.0]: {SECONDS} > 0"),
        ({"seconds": [[10**400, 1]]}, "a.seconds[0]: [1000"),
        ({"seconds": [[1, 10**400]]}, "a.seconds[0]: [1, 1000"),
        ({"seconds": [[1, float("nan")]]}, f"a.seconds[0]: [1, nan]: {SECONDS} > 0"),
        ({"seconds": [[4, 0.1], [4, 0.2]]}, "a.seconds[1]: [4, 0.2]: expected a batch size above 4, that"),
        ({"seconds": [[1, 0.2], [4, 0.1]]}, "a.seconds[1]: [4, 0.1]: expected seconds that do not fall"),
        ({"max_wait": -0.5}, f"a.max_wait: -0.5: {SECONDS} >= 0"),
        elsewhere("kv_tokens", '5', "kind", "batch", "tokens"),
        ({"slo": {"first_token": 1}}, "a.slo.first_token: expected only the keys latency; a service with"),
        ({"min": None}, 'a.min: expected an integer >= 0; scale = "target" needs it'),
        ({"min": -1}, "a.min: -1: expected an integer >= 0"),
        ({"min": 5}, "a.min: 5: expected an integer <= max, which is 4"),
        ({"max": 0}, "a.max: 0: expected an integer >= 1"),
        ({"target": 0}, "a.target: 0: expected a finite number of requests > 0"),
        ({"every": 0}, f"a.every: 0: {SECONDS} > 0"),
        ({"tolerance": -0.1}, "a.tolerance: -0.1: expected a finite number >= 0"),
        ({"down_after": -1}, f"a.down_after: -1: {SECONDS} >= 0"),
        elsewhere("replicas", '4', "scale", "target", "fixed"),
    ],
)  # fmt: skip
def test_bad_keys_of_batch_services(keys: dict[str, Any], told: str) -> None:
    table = {name: value for name, value in (BATCH | keys).items() if value is not None}
    said = refused({"a": table})
    assert said.startswith(f"<services>: {told}"), said


def test_what_is_no_serving_file(tmp_path: Path) -> None:
    assert refused({}).startswith("<services>: names no service; begin with")
    assert refused({"kind": "tokens"}).startswith(
        '<services>: kind: "tokens": expected a table; write the keys'
    )
    assert "a text of one line" in refused({"a\nb": TOKENS})
    path = tmp_path / "services.csv"
    path.write_text("service,time,replicas,gpus_per_replica\na,0,1,1\n")
    with pytest.raises(InputError, match="with requests, services are a TOML file, one table per service"):
        ServingFile.read(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, r"c\.csv: no such file; check the path"),
        (f"{HEAD}\nb,0,1\nab,0,1\n", rf"a\.counts: .*{NAMED}; did you mean ab"),
        (f"{HEAD}\nother,0,1\n", rf"a\.counts: .*{NAMED}; it has rows of other"),
        (f"{HEAD}\n", rf"a\.counts: .*{NAMED}; it has rows of no service"),
        (f"{HEAD}\na,-1,1\n", r"c\.csv: row 1 \(line 2\), column time: -1: expected a finite"),
        (f"{HEAD}\na,0,1\na,0,2\n", r"row 2 \(line 3\), column time: 0: expected one row"),
        (f"{HEAD},gpus_per_replica\nb,0,1,9\na,0,1,2\n", r"gpus_per_replica: 2: expected 1, as a\.gpus"),
        ("service,time\na,0\n", "has no column replicas; services have the columns service, time, replicas"),
    ],
)  # fmt: skip
def test_bad_counts(tmp_path: Path, text: str | None, told: str) -> None:
    """The table lies beside the file that names it."""
    keys = "\n".join(
        f"{name} = {value!r}".replace("'", '"')
        for name, value in (TOKENS | {"scale": "file", "counts": "c.csv"}).items()
        if name != "replicas"
    )
    (tmp_path / "s.toml").write_text(f"[a]\n{keys}\n")
    if text is not None:
        (tmp_path / "c.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        ServingFile.read(tmp_path / "s.toml")
    assert re.search(told, str(caught.value)), str(caught.value)


TYPES: Final = ((4, "V100"), (8, "H100"))


def test_on_a_cluster(tmp_path: Path) -> None:
    """H100s are 4.24 times as fast as V100s; the first type of the cluster is what the seconds are of."""
    slow, fast = (f'[[servers]]\ncount = 1\ngpus = {gpus}\ngpu_type = "{name}"\n' for gpus, name in TYPES)
    path = tmp_path / "c.toml"
    path.write_text(slow + fast)

    def check(**keys: Any) -> None:
        ServingFile.read({"a": TOKENS | keys}).check_on(Cluster.parse(path))

    check(gpus=8, step=4.3e-6)
    with pytest.raises(InputError) as caught:
        check(gpus=9)
    told = "a replica runs on one server; the largest has 8 GPUs"
    assert str(caught.value) == f"<services>: a.gpus: 9: expected an integer >= 1 and <= 8; {told}"
    with pytest.raises(InputError) as caught:
        check(step=4.2e-6)
    told = "expected at least 1e-06 s on H100, which is 4.24 times as fast; count seconds"
    assert str(caught.value) == f"<services>: a.step: 4.2e-06: {told}"
    batch = BATCH | {"seconds": [[1, 9e-7], [2, 1.0]]}
    with pytest.raises(InputError, match=r"a\.seconds: 9e-07: expected at least 1e-06 s; count seconds"):
        ServingFile.read({"a": batch}).check_on(Cluster.parse("2x8"))
    path.write_text(fast + slow)
    check(step=1.1e-6)


def test_equal_keys_are_equal() -> None:
    kind, scale = TokenKind(0.01, 1e-4, 1e-3, 8, 1000), FixedScale(2)
    assert vars(ServingFile.read({"a": TOKENS}).services[0]) == vars(ServiceKeys("a", 1, kind, scale))
