"""Owners by any column, by hand: several files of quotas, fair shares on two levels (docs/operators.md)."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from cases.case import Case, by_hand
from cases.compare import agreed
from conftest import Invoke
from ringbco.errors import InputError, UsageError
from ringbco.trace.fair_shares import FairShares
from ringbco.trace.quotas import Quotas
from ringbco.trace.side_table import ReadContext

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
COLUMNS = "submit_time num_gpus duration user account array"
Row = tuple[float, int, float, str | None, str | None, int | None]


def book(column: str, *rows: tuple[object, int, bool]) -> list[dict[str, Any]]:
    return [{column: owner, "gpus": gpus, "borrow": borrow} for owner, gpus, borrow in rows]


def capped(rows: list[Row], *books: list[dict[str, Any]], **options: Any) -> Case:
    files = dict(zip(("quota", "quota-2"), books, strict=False))
    return by_hand((8,), COLUMNS, rows, **{"policy": "fifo", "preempt_cost": 0.0, **files, **options})


def starts(case: Case) -> list[float]:
    """By the reference model, which must be the engine's; the audit finds nothing."""
    result = agreed(case).result
    assert list(ringbco.audit(case.replay(), case.frame())) == []
    return list(result.start)


TASKS: list[Row] = [(0.0, 1, 100.0, "ann", "x", 17)] * 4
"""Tasks of an array."""


def test_an_array_runs_two_tasks_at_once() -> None:
    """As `sbatch --array=0-3%2`."""
    other: Row = (0.0, 1, 100.0, "ann", "x", 18)
    assert starts(capped([*TASKS, other], book("array", (17, 2, False)))) == [0.0, 0.0, 100.0, 100.0, 0.0]


def test_all_jobs_of_an_account_hold_at_most_so_many_gpus() -> None:
    """As Slurm's GrpTRES: whoever of the account asks."""
    rows: list[Row] = [
        (0.0, 3, 100.0, "ann", "x", None),
        (0.0, 2, 10.0, "bob", "x", None),
        (0.0, 1, 10.0, "bob", "x", None),
        (0.0, 4, 10.0, "cid", "y", None),
        (0.0, 4, 10.0, "cid", None, None),
    ]
    case = capped(rows, book("account", ("x", 4, False)))
    # j3 finds 4 GPUs beside the 4 of x; j4, of no account, waits for them.
    assert starts(case) == [0.0, 100.0, 0.0, 0.0, 10.0]


def test_no_user_holds_more_than_so_many_gpus() -> None:
    """As Slurm's MaxTRESPerUser, here of 2 for everybody."""
    rows: list[Row] = [(0.0, 1, 10.0 * at, user, None, None) for user in ("ann", "bob") for at in (1, 2, 3)]
    case = capped(rows, book("user", ("ann", 2, False), ("bob", 2, False)))
    assert starts(case) == [0.0, 0.0, 10.0] * 2


def test_an_account_borrows_at_most_so_many_gpus() -> None:
    """As Kueue's nominalQuota of 4 and borrowingLimit of 2: at 50 s y takes back what x borrowed."""
    rows: list[Row] = [
        *[(0.0, 2, 100.0, "ann", "x", None)] * 4,
        (0.0, 2, 40.0, "bob", "y", None),
        (50.0, 4, 10.0, "bob", "y", None),
    ]
    nominal = book("account", ("x", 4, True), ("y", 4, True))
    case = capped(rows, nominal, book("account", ("x", 6, False)), queue="skip")
    result = agreed(case).result
    # The third job of x borrows and is evicted; the fourth would exceed the limit.
    assert list(result.start) == [0.0, 0.0, 0.0, 100.0, 0.0, 50.0]
    assert list(result.finish)[2] == 110.0
    assert case.replay().summary["evictions"] == 1
    # Without the limit the fourth borrows, too.
    assert starts(capped(rows[:4], nominal[:1], queue="skip")) == [0.0] * 4


def test_two_books() -> None:
    """t2 and t3 wait for their array, m for its account: 2 + 3 > 4, at 100 s as well. n waits for nobody."""
    rows: list[Row] = [*TASKS, (0.0, 3, 50.0, "bob", "x", None), (0.0, 4, 70.0, "cid", "y", None)]
    case = capped(rows, book("array", (17, 2, False)), book("account", ("x", 4, False)))
    assert starts(case) == [0.0, 0.0, 100.0, 100.0, 200.0, 0.0]
    for policy in ("srtf", "repack", "afs", "sjf-bco"):
        starts(capped(rows, *case.files.values(), policy=policy))


def test_a_ranking_counts_a_job_only_if_it_is_within_all_books() -> None:
    """At 0 s ann's first job is over its account's quota, and takes nothing of ann's. At 10 s it is first."""
    rows: list[Row] = [
        (0.0, 2, 10.0, "bob", "x", None),
        (0.0, 3, 20.0, "ann", "x", None),
        (0.0, 3, 30.0, "ann", "y", None),
    ]
    books = book("account", ("x", 4, False)), book("user", ("ann", 3, False))
    assert starts(capped(rows, *books, policy="srtf")) == [0.0, 10.0, 0.0]


@pytest.mark.parametrize("policy", ["gavel", "allox", "sia"])
def test_a_file_that_lends_and_one_that_caps(policy: str) -> None:
    """The owner never holds more than the second allows."""
    for seed in range(25):
        draw = random.Random(f"{policy} {seed}")
        rows: list[Row] = [
            (
                draw.choice([0.0, 0.0, 30.0]),
                draw.randint(1, 3),
                draw.choice([10.0, 40.0, 90.0]),
                user,
                account,
                None,
            )
            for user, account in [(draw.choice("ab"), draw.choice(["x", "x", "y"])) for _ in range(6)]
        ]
        column = draw.choice(["user", "account"])
        owners = sorted({row[3 if column == "user" else 4] for row in rows})
        lends = book(column, *[(owner, draw.randint(0, 2), True) for owner in owners])
        accounts = sorted({str(row[4]) for row in rows})
        caps = book("account", *[(owner, draw.randint(3, 5), False) for owner in accounts])
        own = {"parameters": {"round": 20.0}} if policy == "gavel" else {}
        case = capped(rows, lends, caps, policy=policy, **own)
        if policy == "sia":
            for job in case.jobs:
                job |= {"min_gpus": 1, "max_gpus": 4}
        starts(case)
        held = case.replay().allocations.join(case.frame().select("job_id", "account"), on="job_id")
        for cap in caps:
            own = held.filter(pl.col("account") == cap["account"])
            for at in own["start_time"].unique():
                now = own.filter((pl.col("start_time") <= at) & (pl.col("end_time") > at))
                assert now["num_gpus"].sum() <= cap["gpus"]


def test_a_custom_policy_sees_the_quota_of_each_file() -> None:
    seen = []

    class Looks(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            if not seen:
                seen.extend([state.quotas(0), state.quotas(1), state.quota(1)])
            state.start(state.waiting, strict=False)

    rows: list[Row] = [(0.0, 1, 9.0, "ann", "x", 7), (0.0, 1, 9.0, "bob", "x", None)]
    case = capped(rows, book("array", (7, 2, False)), book("account", ("x", 4, True)), policy=Looks)
    case.replay()
    assert seen == [[("7", 2, 0, False), ("x", 4, 0, True)], [None, ("x", 4, 0, True)], ("x", 4, 0, True)]


def test_a_verb_beyond_the_quota_of_any_file_is_refused() -> None:
    class Greedy(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            for row in state.waiting:
                state.start([row], servers=[(0, int(state.jobs.num_gpus[row]))])

    rows: list[Row] = [(0.0, 3, 9.0, "ann", "x", None), (0.0, 2, 9.0, "bob", "x", None)]
    case = capped(rows, book("user", ("bob", 2, False)), book("account", ("x", 4, False)), policy=Greedy)
    told = r"job j1 \(row 1\): its owner has a quota of 4 GPUs, holds 3 beside these 2, and may not borrow"
    with pytest.raises(ringbco.DecisionError, match=told):
        case.replay()


# The folder


def tables(folder: Path) -> None:
    (folder / "jobs.csv").write_text(
        "job_id,submit_time,num_gpus,duration,account,array\nt0,0,1,100,x,17\nt1,0,1,100,x,17\n"
        "t2,0,1,100,x,17\nm,0,3,50,x,\nn,0,4,70,y,\n"
    )
    (folder / "arrays.csv").write_text("array,gpus,borrow\n17,2,false\n")
    (folder / "accounts.csv").write_text("account,gpus,borrow\nx,4,false\n")


TWO = ("replay", "jobs.csv", "--cluster", "1x8", "--policy", "fifo", "--model", "fixed")
BOTH = ("--quota", "arrays.csv", "--quota", "accounts.csv")


def test_the_folder_keeps_each_file(invoke: Invoke) -> None:
    """The example of the page; the copies repeat it, and so does its log."""
    tables(Path())
    ran = invoke(*TWO, *BOTH, "--decisions", "-o", "capped")
    assert (ran.returncode, ran.stderr) == (0, "")
    outcome = ringbco.Outcome.read("capped")
    assert outcome.jobs["start_time"].to_list() == [0.0, 0.0, 100.0, 100.0, 0.0]
    assert pl.read_parquet("capped/quota.parquet").rows() == [("17", 2, False)]
    assert pl.read_parquet("capped/quota-2.parquet").columns == ["account", "gpus", "borrow"]
    assert [told["path"] for told in outcome.run["quotas"]] == ["arrays.csv", "accounts.csv"]
    assert outcome.quota_3 is None
    Path("arrays.csv").unlink()
    Path("accounts.csv").unlink()
    assert invoke("audit", "capped").returncode == 0
    again = invoke("replay", "--again", "capped")
    assert (again.returncode, again.stderr) == (0, "")
    assert "quota-2.parquet      the same" in again.stdout
    story = invoke("why", "capped", "m").stdout
    (said,) = re.findall(r"^(There was room for its 3 GPUs, but .*)$", PAGE.read_text(), re.MULTILINE)
    assert said in " ".join(story.split())
    followed = invoke(
        *("replay", "jobs.csv", "--cluster", "1x8", "--policy", "log:capped/decisions.parquet", "-o", "again")
    )
    assert followed.returncode == 0, followed.stderr
    assert (Path("again/jobs.parquet")).read_bytes() == Path("capped/jobs.parquet").read_bytes()
    assert Path("again/quota-2.parquet").is_file()
    assert invoke(*TWO, "-o", "capped", "--force").returncode == 0
    assert not Path("capped/quota-2.parquet").exists()


def test_runs_sweeps_and_forks_take_several_files(invoke: Invoke) -> None:
    tables(Path())
    compared = invoke(
        *("compare", "jobs.csv", "--cluster", "1x8", "--model", "fixed", "--seeds", "1", *BOTH, "-o", "c"),
        *("--run", "fifo", "--run", "free=fifo --quota none", "--run", "one=fifo --quota accounts.csv"),
    )
    assert (compared.returncode, compared.stderr) == (0, "")
    kept = {path.parent.name for path in Path("c").glob("*/quota*.parquet")}
    assert kept == {"fifo", "one"}
    assert not Path("c/one/quota-2.parquet").exists()
    Path("sweep.toml").write_text(
        '[base]\ntrace = "jobs.csv"\ncluster = "1x8"\nmodel = "fixed"\n'
        'policy = "fifo"\n[grid]\nquota = [["arrays.csv", "accounts.csv"], "arrays.csv", "none"]\n'
    )
    frame = ringbco.sweep("sweep.toml", "out").frame
    assert frame["quota"].to_list() == ["arrays.csv, accounts.csv", "arrays.csv", None]
    assert frame["mean_jct"].n_unique() == 3
    Path("bare.toml").write_text('[base]\ntrace = "jobs.csv"\ncluster = "1x8"\nmodel = "fixed"\n')
    swept = invoke("sweep", "bare.toml", "--run", f"both=fifo {' '.join(BOTH)}", "-o", "named")
    assert (swept.returncode, swept.stderr) == (0, "")
    assert pl.read_parquet("named/runs.parquet")["mean_jct"].to_list() == frame["mean_jct"].to_list()[:1]
    one = ringbco.replay(
        "jobs.csv", "1x8", policy="fifo", model="fixed", quota=["arrays.csv", "accounts.csv"]
    )
    assert frame["mean_jct"][0] == one.summary["mean_jct"]
    simulation = ringbco.Simulation("jobs.csv", "1x8", quota=("arrays.csv", "accounts.csv"))
    simulation.advance()
    assert [quota and quota.owner for quota in simulation.fork().state.quotas(0)] == ["17", "x"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["arrays.csv"] * 10, "option quota: 10 files: expected at most 9"),
        (["none", "arrays.csv"], "none: no such file"),
        ([], None),
        (["arrays.csv", "none.csv"], "none.csv"),
    ],
)
def test_which_files_are_taken(
    given: list[str], told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    if told is None:
        assert ringbco.replay("jobs.csv", "1x8", policy="fifo", quota=given).quota is None
        return
    with pytest.raises((InputError, UsageError), match=re.escape(told)):
        ringbco.replay("jobs.csv", "1x8", policy="fifo", quota=given)


# Bad files

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c"],
        "submit_time": [0.0, 0.0, 0.0],
        "num_gpus": pl.Series([1, 2, 2], dtype=pl.UInt32),
        "duration": [10.0, 10.0, 10.0],
        "user": ["ann", "bob", None],
        "account": ["x", "x", "y"],
        "array": [17, None, None],
        "load": [0.5, 0.5, 1.0],
    }
)
DROP = "; name a value of that column of the job table, or drop the row"
NOTHING = "expected nothing: the owners of this file are those of"
ALONE = "give them a file of their own"
OWNER = "expected an owner of jobs: "
NO_JOB = OWNER + "no job of the table has this"
ONCE = "expected every owner once; drop one of the two rows"
FLOATS = (
    "column load: 0.5: expected an owner of jobs: the job table's column load is Float64, not of text or of"
    " integers; take another column for owners"
)
FIRST, SECOND = "row 1 (line 2), ", "row 2 (line 3), "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "account,gpus,borrow\nx,4,true\n,4,true\n",
            f"{SECOND}column account: null: expected the name of an owner{DROP}",
        ),
        ("array,gpus,borrow\n17,4,true\n17,2,true\n", f"{SECOND}column array: 17: {ONCE}"),
        ("array,gpus,borrow\n18,4,true\n", f"{FIRST}column array: 18: {NO_JOB} array{DROP}"),
        (
            "gpus,borrow\n4,true\n",
            "has no column of owners; beside gpus, borrow give a column of the job table, such as user",
        ),
        (
            "acount,gpus,borrow\nx,4,true\n",
            f"{FIRST}column acount: x: {OWNER}the job table has no column acount; did you mean account?",
        ),
        (
            "account,user,gpus,borrow\nx,,4,true\nx,ann,4,true\n",
            f"{SECOND}column user: ann: {NOTHING} account; {ALONE}",
        ),
        ("load,gpus,borrow\n0.5,4,true\n", f"{FIRST}{FLOATS}"),
    ],
)
def test_a_bad_file_of_quotas(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "q.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Quotas.read(path, ReadContext(JOBS))
    assert str(caught.value) == f"{path}: {told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "account,user,share\n,ann,4\n",
            f"{FIRST}column account: null: expected the name of an owner{DROP}",
        ),
        ("account,user,share\nx,,1\nx,,2\n", f"{SECOND}column user: null: {ONCE}"),
        ("account,user,share\nx,ann,1\nx,ann,2\n", f"{SECOND}column user: ann: {ONCE}"),
        ("account,user,share\nz,,1\n", f"{FIRST}column account: z: {NO_JOB} account{DROP}"),
        (
            "account,user,share\ny,ann,1\n",
            f"{FIRST}column user: ann: {NO_JOB} user and account{DROP}",
        ),
        (
            "account,user,array,share\nx,ann,17,1\n",
            f"{FIRST}column array: 17: {NOTHING} account and user; {ALONE}",
        ),
        ("account,load,share\nx,0.5,1\n", f"{FIRST}{FLOATS}"),
    ],
)
def test_a_bad_file_of_shares(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        FairShares.read(path, ReadContext(JOBS))
    assert str(caught.value) == f"{path}: {told}"


# Fair Tree


def tree(rows: list[Row], *shares: tuple[str, str | None, float | None], **options: Any) -> Case:
    files = [{"account": account, "user": user, "share": share} for account, user, share in shares]
    given = {"policy": "fifo", "order": "fairshare", "half_life": 1e9, "preempt_cost": 0.0}
    return by_hand((4,), COLUMNS, rows, **{**given, "fair_shares": files, **options})


DOCS: list[Row] = [
    (0.0, 4, 10.0, "ann", "x", None),
    (1.0, 4, 10.0, "ann", "x", None),
    (1.0, 4, 10.0, "bob", "x", None),
    (1.0, 4, 10.0, "cid", "y", None),
    (1.0, 4, 10.0, "dan", "y", None),
]


@pytest.mark.parametrize("queue", ["strict", "skip", "easy", "conservative"])
def test_the_example_of_the_page(queue: str) -> None:
    """The account goes first, then the user in it."""
    case = tree(DOCS, ("x", None, 3.0), ("y", "dan", 2.0), queue=queue, half_life=604800.0)
    assert starts(case) == [0.0, 30.0, 20.0, 10.0, 40.0]


def test_a_user_of_two_accounts_is_two_users() -> None:
    """ann of y used nothing, whatever ann of x used. Under shares of users alone bob goes before ann."""
    rows: list[Row] = [
        (0.0, 4, 10.0, "ann", "x", None),
        (1.0, 4, 10.0, "ann", "y", None),
        (2.0, 4, 10.0, "bob", "x", None),
    ]
    assert starts(tree(rows, ("x", None, 1.0))) == [0.0, 10.0, 20.0]
    alone = tree(rows)
    alone.files = {"fair_shares": [{"user": "ann", "share": 1.0}]}
    assert starts(alone) == [0.0, 20.0, 10.0]


def test_shares_of_0_come_last_on_their_level() -> None:
    rows: list[Row] = [
        (0.0, 4, 10.0, "eve", "z", None),
        (1.0, 4, 10.0, "ann", "x", None),
        (1.0, 4, 10.0, "ann", "y", None),
        (1.0, 4, 10.0, "bob", "y", None),
        (1.0, 4, 10.0, "eve", "z", None),
    ]
    case = tree(rows, ("x", None, 0.0), ("y", "ann", 0.0))
    # y before z, which used 40; in y bob before ann. z and y used 40 each then, z earlier.
    assert starts(case) == [0.0, 50.0 - 10.0, 30.0, 10.0, 20.0]


def test_accounts_that_rank_alike_are_served_by_their_users() -> None:
    """x and y used nothing; all four users rank alike, and fifo decides."""
    rows: list[Row] = [
        (0.0, 4, 10.0, None, None, None),
        (1.0, 4, 1.0, "ann", "x", None),
        (2.0, 4, 1.0, "cid", "y", None),
    ]
    assert starts(tree(rows, ("x", None, 9.0))) == [0.0, 10.0, 11.0]


def test_users_in_virtual_clusters_are_two_levels_in_the_copy_too(invoke: Invoke) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_time": [0.0, 1.0, 1.0, 1.0],
            "num_gpus": [4, 4, 4, 4],
            "duration": [10.0] * 4,
            "vc": ["x", "x", "x", "y"],
            "user": ["ann", "ann", "bob", "cid"],
        }
    )
    jobs.write_csv("jobs.csv")
    Path("tree.csv").write_text("vc,user,share\nx,,4\n")
    Path("flat.csv").write_text("vc,share\nx,4\n")
    found = {}
    for name in ("tree", "flat"):
        ran = invoke(
            *("replay", "jobs.csv", "--cluster", "1x4", "--policy", "fifo", "--model", "fixed", "-o", name),
            *("--order", "fairshare", "--fair-shares", f"{name}.csv"),
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert invoke("audit", name).returncode == 0
        found[name] = ringbco.Outcome.read(name).jobs["start_time"].to_list()
    # d's cluster used nothing. Then x's 40 over 4 is less than y's 40; in x bob used nothing.
    assert found == {"tree": [0.0, 30.0, 20.0, 10.0], "flat": [0.0, 20.0, 30.0, 10.0]}


def test_a_ranking_stops_who_comes_to_be_over_a_cap_though_nobody_waits() -> None:
    """The first job ends at 5; the second, on borrowed GPUs so far, then counts in x, which may hold one."""
    rows: list[Row] = [
        (0.0, 1, 5.0, "ann", "y", None),
        (1.0, 1, 10.0, "ann", "x", None),
        (2.0, 1, 12.0, "bob", "x", None),
    ]
    books = (book("user", ("ann", 1, True), ("bob", 0, True)), book("account", ("x", 1, False)))
    case = capped(rows, *books, policy="srtf")
    assert starts(case) == [0.0, 1.0, 2.0]
    jobs = case.replay().jobs
    assert jobs["finish_time"].to_list() == [5.0, 11.0, 20.0]
    assert jobs["preemptions"].to_list() == [0, 0, 1]
