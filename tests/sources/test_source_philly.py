"""Philly: four readings of jobs with several attempts, and JSON that is not what it should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raw import philly
from raw.agreement import converted
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert
from ringbco.sources.source import Options

MODES = ("span", "sum", "split", "last")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(mode: str, seed: int, tmp_path: Path) -> None:
    raw = philly.generate(mode, seed, machines=seed % 2 == 1)
    result = converted("philly", raw, tmp_path, mode=mode)
    assert result.account.unit == ("attempts" if mode == "split" else "jobs")


def published_example() -> dict[str, object]:
    """The example of the trace's README, its hosts shortened: two attempts, 8 GPUs, then 2."""

    def attempt(start: str, end: str, gpus: int) -> dict[str, object]:
        detail = [{"ip": "m47", "gpus": [f"gpu{i}" for i in range(gpus)]}]
        return {"start_time": start, "end_time": end, "detail": detail}

    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
            attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", 2),
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    }


@pytest.mark.parametrize(
    ("mode", "jobs"),
    [
        ("span", [("application_1506638472019_14199", 0.0, 8, 193_263.0)]),
        ("sum", [("application_1506638472019_14199", 0.0, 8, 74.0 + 193_182.0)]),
        ("last", [("application_1506638472019_14199", 0.0, 2, 193_182.0)]),
        (
            "split",
            [
                ("application_1506638472019_14199#1", 0.0, 8, 74.0),
                ("application_1506638472019_14199#2", 104.0, 2, 193_182.0),
            ],
        ),
    ],
)
def test_the_published_example_by_hand(mode: str, jobs: list[tuple[object, ...]], tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps([published_example()]))
    result = convert("philly", [path], Options(mode=mode))
    assert result.table.frame.select("job_id", "submit_time", "num_gpus", "duration").rows() == jobs
    assert result.table.frame["num_attempts"].to_list() == [2] * len(jobs)
    assert result.epoch == "2017-10-07T01:11:39"
    assert json.loads(result.table.metadata["ringbco.options"])["mode"] == mode


def test_split_says_that_attempts_of_a_job_may_run_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    one = published_example() | {"jobid": "application_1_1"}
    one["attempts"] = one["attempts"][:1]  # type: ignore[index]
    path.write_text(json.dumps([one, published_example()]))
    [note] = convert("philly", [path], Options(mode="split")).notes
    assert note == (
        "2 attempts are of 1 job with several: in a replay each arrives at its recorded time, even while an"
        " earlier one of its job still waits or runs; first: application_1506638472019_14199#1"
    )
    assert convert("philly", [path], Options(mode="span")).notes == ()
    path.write_text(json.dumps([one]))
    assert convert("philly", [path], Options(mode="split")).notes == ()


def test_an_unknown_mode_is_told_the_others(tmp_path: Path) -> None:
    [path] = philly.generate().write(tmp_path)
    with pytest.raises(
        UsageError, match="--mode spam: choose one of span, sum, split, last; did you mean span"
    ):
        convert("philly", [path], Options(mode="spam"))


def test_strict_names_job_and_line(tmp_path: Path) -> None:
    sound, bad = published_example(), published_example()
    bad["jobid"] = "second"
    bad["attempts"][1]["end_time"] = "None"  # type: ignore[index]
    path = tmp_path / "cluster_job_log"
    text = json.dumps([sound, bad], indent=4)
    path.write_text(text)
    line = text[: text.index("{", text.index("ce2f4c"))].count("\n") + 1
    with pytest.raises(InputError) as caught:
        convert("philly", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 2 (line {line}), column end_time: None: expected a time such as 2020-09-01 12:00:00; "
        "without --strict: dropped, job still running when the log was cut, or its end not recorded "
        "(no end_time)"
    )
    path.write_text(json.dumps([sound, {**bad, "attempts": {"a": 1}}]))
    with pytest.raises(
        InputError, match=r"row 2 \(line 1\), column job: .* expected an object with Philly's keys"
    ):
        convert("philly", [path], Options(strict=True))


@pytest.mark.parametrize(
    ("element", "value"),
    [
        ("lost", '"lost"'),
        (7, "7"),
        (None, "null"),
        ([1, 2], "[1,2]"),
        ({**published_example(), "jobid": 5}, "'jobid: 5'"),
        ({**published_example(), "attempts": {"a": 1}}, "'attempts: {\"a\":1}'"),
        ({**published_example(), "attempts": [{"start_time": 3}]}, "'attempts: [{\"start_time\":3}]'"),
    ],
)
def test_strict_shows_what_is_not_as_published(element: object, value: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps([published_example(), element], indent=4))
    with pytest.raises(InputError) as caught:
        convert("philly", [path], Options(strict=True))
    assert f", column job: {value}: expected an object with Philly's keys" in str(caught.value)
    assert str(caught.value).startswith(f"{path}: row 2 (line ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"jobid": "a", "attempts": [], "submitted_time": ""}\n',
            "one object (or one a line) instead of an",
        ),
        ('[{"jobid": "a", "attempts": [], "submitted_time": ""}', "is JSON that ends before its array does"),
        ('[{"jobid": "a", "attempts": [], "submitted_time": "', "is JSON that ends before its array does"),
        ('[{"jobid": "a",\n "attempts": [],\n "submitted_time": nix}]', "line 3: expected valid JSON"),
        ('[{"jobid": "a", "attempts": [], "submitted_time": ""}] tail', "line 1: expected valid JSON"),
    ],
)
def test_json_that_is_no_array_of_jobs(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        convert("philly", [path])
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_cluster_is_the_replays_and_other_vcs_are_told(tmp_path: Path) -> None:
    raw = philly.generate()
    result = converted("philly", raw, tmp_path, want_cluster=True)
    assert result.cluster == Cluster.parse("preset:philly")
    unknown = sum(job["vc"] == "795a4c" for job in raw.jobs)
    assert result.notes[0].startswith(f"{unknown} jobs belong to virtual clusters of unknown size (795a4c)")
    result = convert("philly", raw.write(tmp_path))
    assert result.notes[0].endswith("leave them out with --known-vcs, or replay with --vc pool")


@pytest.mark.parametrize("mode", MODES)
def test_jobs_of_vcs_of_unknown_size_can_be_left_out(mode: str, tmp_path: Path) -> None:
    raw = philly.generate(mode)
    before = convert("philly", raw.write(tmp_path), Options(mode=mode))
    result = convert("philly", raw.write(tmp_path), Options(mode=mode, known_vcs=True))
    known = [job["job_id"] for job in raw.jobs if job["vc"] != "795a4c"]
    assert result.table.frame["job_id"].to_list() == known
    # A repeated job of such a virtual cluster goes for that reason first.
    both = {"vc is not one of the cluster's (--known-vcs)", philly.TWICE}
    new, old = result.account.dropped, before.account.dropped
    assert {r: n for r, n in new.items() if r not in both} == {r: n for r, n in old.items() if r not in both}
    assert sum(new.values()) == sum(old.values()) + len(raw.jobs) - len(known)
    assert new["vc is not one of the cluster's (--known-vcs)"] >= len(raw.jobs) - len(known)
    assert not any("--known-vcs" in note for note in result.notes)
    assert json.loads(result.table.metadata["ringbco.options"])["known_vcs"] == "yes"


def test_the_large_generator_makes_sound_jobs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    jobs = philly.write_large(path, 2)
    account = convert("philly", [path], Options(strict=True)).account
    assert (account.rows_read, account.rows_kept) == (jobs, jobs)
