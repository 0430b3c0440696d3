"""What a page of results says first, in a few sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ringbco.reports.data_jobs import beyond
from ringbco.reports.overtaken import overtaken
from ringbco.reports.series import gpus_of_class, size_class
from ringbco.result.causes import WAITS
from ringbco.result.comparison import Comparison
from ringbco.result.figures import OVER_BOUND
from ringbco.result.outcome import Outcome
from ringbco.result.why_record import QUEUES
from ringbco.result.window import measured
from ringbco.units import number, number_up, same, time

_KEY: Final = "mean_jct"
_NEARLY_ALL: Final = 0.9
_MOST: Final = 0.6
_MORE: Final = 1.05
_NOISE: Final = 1e-6  # s
_LITTLE: Final = 0.02
"""The share of completion times below which waiting is not worth more GPUs."""
_NOTICED: Final = 60.0  # s; by so much, and the factor above, a size class must be worse off to be named
_MOST_NAMED: Final = 4
_OVERTAKEN: Final = 0.5
"""The share of waiting from which on it is others' turn, and not the number of GPUs, that jobs wait for."""
_AGING: Final = ("sjf", "smallest", "qssf", "fairshare")


def answer(comparison: Comparison) -> list[str]:
    """The sentences of these results, whose order is the best first."""
    if len(comparison.outcomes) == 1:
        return _of_one(comparison)
    if comparison.not_comparable:
        return [
            f"Not ranked, because the jobs or the cluster differ from those of {comparison.baseline_label}:"
            f" {listed(comparison.not_comparable)}."
        ]
    if any(comparison.figure(label, _KEY).value is None for label in comparison.outcomes):
        return []
    return [_soonest(comparison), *_verdict(comparison), *_who_pays(comparison)]


def _mean(comparison: Comparison, label: str, key: str = _KEY) -> float:
    value = comparison.figure(label, key).value
    assert value is not None
    return value


def _soonest(comparison: Comparison) -> str:
    """Whose mean is least, by how much, and how much less any schedule could have."""
    best, *labels = comparison.outcomes
    ties = [label for label in labels if same(_mean(comparison, label), _mean(comparison, best))]
    others = [label for label in labels if label not in ties]
    text = f"{listed([best, *ties])} {'have' if ties else 'has'} the lowest mean completion time, "
    if not others:
        text = f"{'Both' if len(ties) == 1 else f'All {len(ties) + 1}'} have the same mean completion time, "
    text += _with_range(comparison, best)
    if others and not comparison.summaries_by_run:
        other = comparison.baseline_label if comparison.baseline_label in others else others[0]
        share = 1.0 - _mean(comparison, best) / _mean(comparison, other)
        text += f", {100.0 * share:.1f} % below {other}"
    over = comparison.figure(best, OVER_BOUND.key).value
    return f"{text}." if over is None else f"{text}, {_above_bound(over - 1.0)}."


def _verdict(comparison: Comparison) -> list[str]:
    """How the best lies beside the baseline over the runs or, where it is that one, the next beside it."""
    best, after, *_ = comparison.outcomes
    label = after if best == comparison.baseline_label else best
    (measure,) = (measure for measure in comparison.rows if measure.key == _KEY)
    told = comparison.sentence(label, measure) if label in comparison.lines(measure) else None
    return [] if told is None else [told]


def _with_range(comparison: Comparison, label: str, key: str = _KEY) -> str:
    """A time and, of several runs, its range."""
    told = comparison.figure(label, key)
    text = time(_mean(comparison, label, key))
    if told.interval is None:
        return text
    low, high = (time(end) for end in told.interval)
    return f"{text} ({low} to {high} in {told.runs} runs)"


def _percent(share: float) -> str:
    return number(100.0 * share, 2)


def _above_bound(share: float) -> str:
    """How far the mean is above the bound at most: rounded up."""
    if share < 1e-9:  # all but rounding
        return "the best possible"
    if share > 1.0:
        return f"at most {number_up(1.0 + share, 2)} times the best possible"
    return f"within {number_up(100.0 * share, 2)} % of the best possible"


def _who_pays(comparison: Comparison) -> list[str]:
    """The sizes of jobs that the best serves worse than the baseline, or the next, does."""
    labels = list(comparison.outcomes)
    best = labels[0]
    other = comparison.baseline_label if comparison.baseline_label != best else labels[1]
    if same(_mean(comparison, best), _mean(comparison, other)):
        return []
    ours, theirs = (_lost_by_size(comparison.outcomes[label]) for label in (best, other))
    worse = [
        f"{gpus_of_class(size)} (mean delay {time(lost)} instead of {_delay(theirs[size])})"
        for size, lost in sorted(ours.items())
        if size in theirs and lost > max(theirs[size] * _MORE, 0.0) and lost - theirs[size] > _NOTICED
    ]
    if not worse:
        return [f"No job-size class is slower than under {other}."] if len(ours) > 1 else []
    of = "In run 0 slower" if comparison.summaries_by_run else "Slower"
    return [f"{of} than under {other}: jobs of {listed(worse)}."]


def _delay(seconds: float) -> str:
    return time(seconds) if seconds > _NOISE else "none"


def _lost_by_size(outcome: Outcome) -> dict[int, float]:
    """How much longer jobs of each class took than alone, the mean, s."""
    jobs = measured(outcome).lazy().group_by(size_class()).agg(beyond().mean()).collect()
    return dict(jobs.iter_rows())


def _of_one(comparison: Comparison) -> list[str]:
    """What uplinks cost, and how long jobs wait."""
    ((label, outcome),) = comparison.outcomes.items()
    if comparison.figure(label, "p90_wait").value is None:
        return []
    return [*_uplinks(outcome), *_waits(comparison, label, outcome)]


def _uplinks(outcome: Outcome) -> list[str]:
    """What the uplinks of a network of tiers cost."""
    tiers = outcome.summary.get("links")
    if not tiers:
        return []
    lost, worst = (
        sum(tier["gpu_hours_lost"] for tier in tiers),
        max(tiers, key=lambda tier: tier["gpu_hours_lost"]),
    )
    busy = max(tiers, key=lambda tier: tier["mean_share"])
    if busy["largest_share"] == 0:
        return ["Uplinks cost nothing: no job sent anything over one."]
    mean = _percent(busy["mean_share"])
    load = f"the busiest is that of {busy['tier']} {busy['group']}, with a mean load of {mean} %"
    if lost == 0:
        return [f"Uplinks cost nothing; {load}."]
    held = _gpu_hours(outcome)
    share = f", {_percent(lost / held)} % of those held" if held > 0 else ""
    where = "" if len(tiers) == 1 else f", most of them above a {worst['tier']}"
    return [f"Uplinks cost {number(lost, 3)} GPU-hours{share}{where}; {load}."]


def _gpu_hours(outcome: Outcome) -> float:
    """GPU-hours that jobs held."""
    stays = outcome.stays
    held = (stays["end_time"] - stays["start_time"]) * stays["num_gpus"]
    return float(held.to_numpy().sum()) / 3600.0


def _waits(comparison: Comparison, label: str, outcome: Outcome) -> list[str]:
    """How long jobs wait, and for what; where they lose more by running slower, that."""
    waited, slowed = _sums(outcome, "waited"), _sums(outcome, "run_spread", "run_contention")
    if sum(waited.values()) <= 0:
        lines = ["No job waited."]
    else:
        text = f"p90 wait {_with_range(comparison, label, 'p90_wait')}"
        waits = _sums(outcome, *WAITS)
        of = f"; {_of_what(waits)}" if sum(waits.values()) > 0 else ""
        lines = [f"{text}, p99 {_with_range(comparison, label, 'p99_wait')}{of}."]
    if sum(slowed.values()) > sum(waited.values()):
        more = "Jobs lose more time to running spread over servers or in contention than to waiting"
        known = outcome.run.get("options", {})
        if "links" in outcome.summary:  # sjf-bco knows the links of servers alone
            apart = known.get("placement") != "compact"
            advice = ": try --placement compact, which keeps jobs in one rack" if apart else ""
        else:
            apart = known.get("policy") != "sjf-bco"
            advice = ": try --policy sjf-bco, which avoids contention" if apart else ""
        return [*lines, f"{more}{advice}."]
    if 0 < sum(waited.values()) < _LITTLE * sum(_sums(outcome, "jct").values()):
        little = f"Waiting is under {_LITTLE:.0%} of completion time: more GPUs would change little."
        return [*lines, little.replace("%", " %")]
    return [*lines, *_to_try(outcome)]


def _sums(outcome: Outcome, *names: str) -> dict[str, float]:
    """The sums of columns of the jobs, s, of those that there are."""
    jobs = measured(outcome)
    there = (name for name in names if name in jobs.columns)
    return {name: float(jobs[name].cast(pl.Float64).to_numpy().sum()) for name in there}


def _of_what(waits: Mapping[str, float]) -> str:
    """Which causes most of the waiting had."""
    whole = sum(waits.values())
    first, second, *_ = sorted(waits, key=lambda name: -waits[name]) + [""]
    share = waits[first] / whole
    if share >= _NEARLY_ALL:
        return f"nearly all of it {WAITS[first]}"
    if share >= _MOST or not second:
        return f"most of it ({_percent(share)} %) {WAITS[first]}"
    return f"{_percent(share)} % of it {WAITS[first]}, {_percent(waits[second] / whole)} % {WAITS[second]}"


def _to_try(outcome: Outcome) -> list[str]:
    """What may wait less, by what most waiting was for."""
    waits = _sums(outcome, *WAITS)
    if sum(waits.values()) <= 0:
        return []
    options: Mapping[str, Any] = outcome.run.get("options", {})
    cause = max(waits, key=lambda name: waits[name])
    queued = options.get("policy") in QUEUES
    if cause == "wait_fragmented":
        return ["Try --placement best-fit, which keeps servers free, or --policy repack, which moves jobs."]
    if cause == "wait_behind" and queued and options.get("queue") == "strict":
        return ["Try --queue easy: later jobs start where they do not delay the head of the queue."]
    share = overtaken(outcome) if cause == "wait_gpus" else 0.0
    if share >= _OVERTAKEN:
        told = f"In {_percent(share)} % of that time jobs submitted later held enough GPUs"
        return [f"{told}: {_instead(options, queued)}."]
    if options.get("policy") == "fifo" and options.get("order") == "fifo":
        return ["Try --policy sjf, or tiresias if run times are unknown: short jobs then start first."]
    return ["More GPUs would help: ringbco sweep over cluster shows how many."]


def _instead(options: Mapping[str, Any], queued: bool) -> str:
    """What lets fewer jobs overtake others."""
    if queued and options.get("order") in _AGING:
        return "try --aging 1d, after which a waiting job is not overtaken"
    if queued and options.get("queue") == "skip":
        return "try --queue easy, under which no job delays the head of the queue"
    if queued and options.get("queue") == "easy":
        return "try --queue conservative, which reserves GPUs for more jobs than the first"
    return "under --policy fifo --queue easy fewer jobs are overtaken"


def listed(texts: list[str]) -> str:
    """ "a, b and c"; of many the first ones, and how many more there are."""
    if len(texts) > _MOST_NAMED:
        texts = [*texts[: _MOST_NAMED - 1], f"{len(texts) - _MOST_NAMED + 1} others"]
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last
