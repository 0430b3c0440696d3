"""summary.json and timeline.parquet, worked out again from the jobs and their allocations."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringbco.audits import energy, failures, rungs, served
from ringbco.audits.contention import Episodes, Segments
from ringbco.audits.facts import Bools, Facts, Floats, Ints
from ringbco.audits.findings import Check, Finding, added, number
from ringbco.audits.placing import busy_gpus, servers_used, until
from ringbco.audits.rows import dropped, left_out, refusable
from ringbco.audits.searching import merged
from ringbco.audits.served import Served
from ringbco.audits.times import gpus_held, pauses, resize_pauses
from ringbco.errors import show_value
from ringbco.trace.shares import WHOLE

RELATIVE = 1e-9
"""How far sums may be from what they should be: they depend on the order of adding up."""
CLOSE = 1e-12
"""The same for what is no sum: order statistics and differences."""
NO_SUMS = ("median_", "p90_", "p99_", "worst_", "makespan", "deadlines", "jobs_per_second")
DEFAULT_POINTS = 2000
SHARES = (("median", 0.5), ("p90", 0.9), ("p99", 0.99))
BOUND = 10.0  # s: the bounded slowdown takes shorter jobs for this long


def check_summary(check: Check, facts: Facts, eps: Episodes, parts: Segments) -> None:
    """Counts, times, utilisation and contention of summary.json, for the whole and by virtual cluster."""
    summary = facts.outcome.summary
    everybody = np.ones(facts.start.size, dtype=bool)
    missing = dropped(facts)
    whole = np.ones(facts.server_gpus.size, dtype=bool)
    expected: dict[str, float | None] = {**_figures(facts, eps, everybody, whole)}
    expected |= _told(_fairness(facts, everybody) | _while_submitting(facts, everybody, whole), summary)
    expected["jobs_dropped"] = missing.size
    expected |= _told(_counts(facts, eps, missing) | _resizes(facts, eps), summary)
    expected |= _searches(facts)
    if facts.outages is not None and facts.outcome.allocations is not None:
        expected |= _outages(check, facts, eps, summary)
    elif facts.makes_room and facts.outcome.allocations is not None:
        expected |= _used(facts, eps)
    spanning = parts.p > 0
    seconds = parts.length[spanning]
    if facts.outcome.allocations is not None:
        total = float(seconds.sum())
        expected["mean_contention"] = float(parts.p[spanning] @ seconds) / total if total > 0 else 0.0
    _compare(check, facts, "", summary, expected)
    _check_sizes(check, facts, eps, summary)
    _check_effort(check, facts, eps, summary)
    _check_types(check, facts, summary)
    policy = facts.options.get("policy")
    if "policy" in summary and summary["policy"] != policy:
        check.fail(f"policy is {summary['policy']}; run.toml says {policy}")
    if facts.cluster.server_vc is None:
        return
    rows = _rows(check, summary, "vcs", "vc")
    for v, name in enumerate(facts.cluster.vc_names):
        gpus = int(facts.server_gpus[facts.server_vc == v].sum())
        mine = facts.vc == v
        ran = (mine & facts.finished).any()
        own = facts.server_vc == v
        expected = {**_figures(facts, eps, mine, own)} if ran else {"jobs": 0}
        if ran:
            expected |= _told(
                _fairness(facts, mine) | _while_submitting(facts, mine, own), rows.get(name, {})
            )
        expected["jobs_dropped"] = int(np.count_nonzero(facts.vc_of_row[missing] == v))
        refused = _refused(facts, missing)
        if not facts.logged:  # whom a policy of one's own refused nobody else tells
            by_vc = {"jobs_refused": int(np.count_nonzero(facts.vc_of_row[refused] == v))}
            expected |= _told(by_vc, rows.get(name, {}))
        expected |= {"gpus": gpus, "servers": int(np.count_nonzero(facts.server_vc == v))}
        _compare(check, facts, f"{name}: ", rows.get(name, {}), expected)


def _counts(facts: Facts, eps: Episodes, missing: Ints) -> dict[str, float]:
    """Events: every job in the run comes, and completes or is refused. Preempting or resuming is none."""
    refused = _refused(facts, missing).size
    if facts.logged:  # believed: nothing else tells whom a policy of one's own refused
        refused = np.setdiff1d(left_out(facts), missing).size
    figures: dict[str, float] = {"events": 2 * (facts.start.size + refused)}
    if facts.searched and facts.outcome.allocations is None:
        figures = {}  # nothing tells whom a rung ended
    figures |= {} if facts.logged or not figures else {"jobs_refused": refused}
    total = facts.outcome.summary.get("total_seconds")
    if isinstance(total, int | float) and total > 0:
        figures["jobs_per_second"] = facts.done / total
    return figures


def _searches(facts: Facts) -> dict[str, float]:
    """How many searches and trials that ended; means over searches.parquet, which has a check of its own."""
    told = facts.outcome.searches
    if not facts.searched or told is None:
        return {}
    figures: dict[str, float] = {"searches": told.height}
    ended = int(np.count_nonzero(~facts.finished))
    if ended and not facts.logged and facts.outcome.allocations is not None:
        figures["jobs_ended"] = ended
    for name, column in (("mean_search_gpu_hours", "gpu_hours"), ("mean_time_to_best", "time_to_best")):
        known = told[column].drop_nulls().to_numpy()
        if known.size:
            figures[name] = float(known.mean())
    return figures


def _outages(check: Check, facts: Facts, eps: Episodes, summary: Mapping[str, Any]) -> dict[str, float]:
    """What outages took: goodput and the rest, of the jobs that were done."""
    done = facts.finished[facts.a_job]
    held = float((facts.a_held * (facts.a_end - facts.a_start))[done].sum())
    paused = _preemption(facts, eps, facts.finished)["lost_gpu_seconds"]
    begin = eps.start + pauses(facts, eps)
    found = failures.figures(facts, eps, begin, held, paused)
    by_cause, told = found.pop("lost_gpu_hours_by_cause"), summary.get("lost_gpu_hours_by_cause")
    if not isinstance(told, Mapping) or set(told) != set(by_cause):
        check.fail(f"lost_gpu_hours_by_cause is {show_value(told)}; expected hours of {sorted(by_cause)}")
    else:
        _compare(check, facts, "lost_gpu_hours_by_cause: ", told, by_cause)
    return dict(found)


def _used(facts: Facts, eps: Episodes) -> dict[str, float]:
    """Goodput, and the time of the jobs that were done beside their ideal, where no work is lost."""
    done = facts.finished[facts.a_job]
    held = float((facts.a_held * (facts.a_end - facts.a_start))[done].sum())
    paused = _preemption(facts, eps, facts.finished)["lost_gpu_seconds"]
    ideal = facts.workload.ideal_run_time[facts.row[facts.finished]]
    return {
        "goodput": 1.0 - paused / held if held > 0 else 1.0,
        "effective_training_time_ratio": failures.effective(facts, ideal),
    }


def check_services(check: Check, facts: Facts, found: Served) -> None:
    """What services got and what they lent, in all and by service."""
    summary = facts.outcome.summary
    whole, expected = served.figures(facts, found)
    _compare(check, facts, "", summary, whole)
    rows = _rows(check, summary, "services", "service")
    if list(rows) != list(expected):
        check.fail(f"services has rows of {list(rows)}; expected {list(expected)}")
        return
    for name, row in expected.items():
        _compare(check, facts, f"{name}: ", rows[name], {k: v for k, v in row.items() if v is not None})
        for key in (key for key, value in row.items() if value is None and rows[name].get(key) is not None):
            check.fail(f"{name}: {key} is {show_value(rows[name][key])}; no replica started")


def _up(facts: Facts, servers: Bools, start: float, end: float) -> float:
    """GPU-seconds of some servers in which they were up, from `start` to `end`."""
    gpus = np.where(servers, facts.server_gpus, 0)
    lacking = 0.0 if facts.outages is None else facts.outages.gpu_seconds(gpus, start, end)
    return float(gpus.sum()) * (end - start) - lacking


def _refused(facts: Facts, missing: Ints) -> Ints:
    """Rows that admission refused, with `missing` those that fit nowhere."""
    return np.setdiff1d(refusable(facts), missing)


def _check_types(check: Check, facts: Facts, summary: Mapping[str, Any]) -> None:
    """The rows of gpu_types, where the summary has them: what each GPU type was used for."""
    rows = _rows(check, summary, "gpu_types", "gpu_type")
    first, last = float(facts.submit.min()), float(facts.finish.max())
    known = {}
    for name, row in rows.items():
        own, fact = energy.servers_of(facts, name), facts.cluster.find_type(name)
        if not own.any() or fact is None:
            check.fail(f"gpu_types has a row {name!r}; the cluster has no such GPU type")
            continue
        known[name] = energy.of_type(facts, name, fact, _up(facts, own, first, last))
        _compare(check, facts, f"{name}: ", row, known[name])
    # Earlier versions summed nothing up.
    _compare(check, facts, "", summary, _told(energy.totals(facts, known), summary))


def _check_effort(check: Check, facts: Facts, eps: Episodes, summary: Mapping[str, Any]) -> None:
    """Every start was a decision, at least; and what is wall time cannot be negative."""
    starts = eps.job.size if facts.outcome.allocations is not None else facts.start.size
    for name, least in (("decisions", starts), ("engine_seconds", 0), ("total_seconds", 0)):
        said = summary.get(name, least)
        if not (isinstance(said, int | float) and least <= said < math.inf):
            check.fail(f"{name} is {said}; expected at least {least}")


def _figures(facts: Facts, eps: Episodes, chosen: Bools, servers: Bools) -> dict[str, float]:
    first, last = float(facts.submit[chosen].min()), float(facts.finish[chosen].max())
    makespan = last - first
    done = chosen & facts.finished
    submit, start, finish = facts.submit[done], facts.start[done], facts.finish[done]
    jct = finish - submit
    waited = facts.jobs["waited"].to_numpy()[done[: facts.done]]
    figures: dict[str, float] = {"jobs": int(done.sum()), "makespan": makespan}
    for name, values in (
        ("jct", jct),
        ("wait", waited),
        ("time_to_start", start - submit),
        ("slowdown", jct / facts.workload.ideal_run_time[facts.row[done]]),
    ):
        figures[f"mean_{name}"] = added(values) / values.size
        for label, share in SHARES:
            figures[f"{label}_{name}"] = _percentile(values, share)
    if facts.preemptive and facts.outcome.allocations is not None:
        mine = chosen[facts.a_job]
        held = float((facts.a_held[mine] * (facts.a_end[mine] - facts.a_start[mine])).sum())
        figures |= _preemption(facts, eps, done)
    else:
        # Without its stretches only held_time says how long a job that was preempted held its GPUs.
        told = facts.preemptive and "held_time" in facts.jobs.columns
        seconds = facts.jobs["held_time"].to_numpy()[chosen] if told else finish - start
        held = float((facts.weight[chosen] * seconds).sum())
        if "held_gpu_time" in facts.jobs.columns:
            held = float(facts.jobs["held_gpu_time"].to_numpy()[chosen].sum())
    up = _up(facts, servers, first, last)
    figures["utilisation"] = held / up if up > 0 else 0.0
    if facts.outcome.allocations is None and facts.outcome.summary.get("jobs_ended"):
        del figures["makespan"], figures["utilisation"]  # nothing tells what those jobs held
    if facts.outcome.allocations is not None:
        figures["jobs_spread"] = int(np.count_nonzero(servers_used(done.size, eps)[done] > 1))
    return figures


def _while_submitting(facts: Facts, chosen: Bools, servers: Bools) -> dict[str, float | None]:
    """Of the GPU-seconds from the first to the last submission of the chosen jobs, the share they held.

    None where every server was down in that time.
    """
    submit = facts.submit[chosen]
    last = float(submit.max())
    up = _up(facts, servers, float(submit.min()), last)
    if facts.preemptive and facts.outcome.allocations is None:
        return {}  # nothing tells when a preempted job held its GPUs
    if facts.preemptive:
        mine = chosen[facts.a_job]
        start, end, held = facts.a_start[mine], facts.a_end[mine], facts.a_held[mine]
    else:
        start, end, held = facts.start[chosen], facts.finish[chosen], facts.weight[chosen]
    before = np.maximum(np.minimum(end, last) - start, 0.0)
    if up > 0:
        return {"utilisation_to_last_submission": added(held * before) / up}
    # Without a window there is no such share: whatever a summary says of it is wrong.
    return {"utilisation_to_last_submission": None if last > submit.min() else math.nan}


def _check_sizes(check: Check, facts: Facts, eps: Episodes, summary: Mapping[str, Any]) -> None:
    """The rows of size_classes, where the summary has them: "1", "2-4" and so on; "33-" is open."""
    rows = summary.get("size_classes", [])
    whole = np.ones(facts.server_gpus.size, dtype=bool)
    for row in rows if isinstance(rows, list) else [rows]:
        name = row.get("gpus") if isinstance(row, Mapping) else row
        bounds = re.fullmatch(r"(\d{1,10})(-?)(\d{0,10})", str(name))
        if bounds is None or not isinstance(row, Mapping):
            check.fail(f"size_classes has a row {name!r}; expected one such as '2-4'")
            continue
        low, dash, high = bounds.groups()
        chosen = facts.num_gpus >= int(low)
        if high or not dash:
            chosen &= facts.num_gpus <= int(high or low)
        expected: dict[str, float | None] = {"jobs": int((chosen & facts.finished).sum())}
        if (chosen & facts.finished).any():
            expected |= _told(_figures(facts, eps, chosen, whole) | _fairness(facts, chosen), row)
        _compare(check, facts, f"size class {name}: ", row, expected)


def _told(expected: Mapping[str, float | None], found: Mapping[str, Any]) -> dict[str, float | None]:
    """Of the figures that not every summary has, those that the summary tells."""
    return {name: value for name, value in expected.items() if name in found}


def _fairness(facts: Facts, chosen: Bools) -> dict[str, float]:
    """Bounded slowdown, finish-time fairness, deadlines and Jain's index, as docs/results.md defines them."""
    chosen = chosen & facts.finished
    finish = facts.finish[chosen]
    jct, ideal = finish - facts.submit[chosen], facts.workload.ideal_run_time[facts.row[chosen]]
    rho = jct / ideal
    whose = facts.row[chosen]
    bounded = np.maximum(jct / np.maximum(ideal, BOUND), 1.0)
    if facts.searched:
        rho, whose = merged(facts, chosen, rho)
    figures: dict[str, float] = {
        "mean_finish_time_fairness": added(rho) / rho.size,
        "worst_finish_time_fairness": float(rho.max()),
    }
    figures["mean_bounded_slowdown"] = added(bounded) / bounded.size
    for label, share in SHARES:
        figures[f"{label}_bounded_slowdown"] = _percentile(bounded, share)
    table = facts.table.frame
    if "deadline" in table.columns:
        due = table["deadline"].fill_null(math.nan).to_numpy()[facts.row[chosen]]
        deadlines = int(np.count_nonzero(~np.isnan(due)))
        missed = int(np.count_nonzero(finish > due))
        figures |= {"deadlines": deadlines, "deadlines_missed": missed}
        if deadlines:
            figures["deadlines_met"] = (deadlines - missed) / deadlines
    if "user" in table.columns:
        speeds: dict[str, list[float]] = {}
        for user, value in zip(table["user"].gather(whose), rho, strict=True):
            if user is not None and value > 0:  # else it ended as it was submitted, and has no speed
                speeds.setdefault(user, []).append(1.0 / float(value))
        means = [added(own) / len(own) for own in speeds.values()]
        if means:
            squares = added(mean * mean for mean in means)
            figures["jain_index_users"] = added(means) ** 2 / (len(means) * squares)
    return figures


def _preemption(facts: Facts, eps: Episodes, chosen: Bools) -> dict[str, float]:
    """Preemptions, and the GPU time in which jobs resumed, or paused at their start."""
    held = facts.weight[eps.job] if facts.shared else gpus_held(facts, eps)
    lost = (np.minimum(eps.end - eps.start, pauses(facts, eps)) * held)[chosen[eps.job]]
    evicted = int(facts.evictions[chosen].sum())
    mine = facts.jobs["preemptions"].to_numpy()[chosen[: facts.done]]
    figures = {"preemptions": int(mine.sum()), "lost_gpu_seconds": float(lost.sum())}
    return figures | ({"evictions": evicted} if facts.makes_room else {})


def _resizes(facts: Facts, eps: Episodes) -> dict[str, float]:
    """Resizes of the jobs that were done, how many jobs that were, and the GPU time of the pauses."""
    if not facts.elastic or facts.outcome.allocations is None:
        return {}
    resized, seconds = resize_pauses(facts, eps)
    resized &= facts.finished[eps.job]
    return {
        "resizes": int(np.count_nonzero(resized)),
        "jobs_resized": np.unique(eps.job[resized]).size,
        "resize_lost_gpu_seconds": added((gpus_held(facts, eps) * seconds)[resized]),
    }


def _percentile(values: Floats, share: float) -> float:
    """Linear interpolation between the order statistics around (n - 1) x share."""
    ordered = np.sort(values)
    at = (ordered.size - 1) * share
    low = math.floor(at)
    high = min(low + 1, ordered.size - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def _rows(check: Check, summary: Mapping[str, Any], key: str, name: str) -> dict[str, Mapping[str, Any]]:
    """The rows of a table of the summary by what they are named, if it has that table."""
    rows = summary.get(key, [])
    if not isinstance(rows, list) or not all(
        isinstance(row, Mapping) and isinstance(row.get(name), str) for row in rows
    ):
        check.fail(f"{key} is {show_value(rows)}; expected rows, each with its {name}")
        return {}
    return {row[name]: row for row in rows}


def _compare(
    check: Check, facts: Facts, where: str, found: Mapping[str, Any], expected: Mapping[str, float | None]
) -> None:
    check.looked_at += len(expected)
    for name, value in expected.items():
        said = found.get(name)
        slack = CLOSE if name.startswith(NO_SUMS) else RELATIVE
        if isinstance(said, int | float):
            measured = abs(said) <= sys.float_info.max  # an integer may be beyond all floats
            near = slack + facts.coarse(name)
            right = measured and value is not None and math.isclose(said, value, rel_tol=slack, abs_tol=near)
            shown = number(said) if measured else show_value(said)
        else:
            right, shown = said is None is value and name in found, show_value(said)
        if not right:
            check.fail(f"{where}{name} is {shown}; expected {'none' if value is None else number(value)}")


def check_timeline(check: Check, facts: Facts, eps: Episodes, parts: Segments) -> None:
    """Samples lie evenly from the first submission to the last finish, and show the state from then on."""
    timeline = facts.outcome.timeline
    times = timeline["time"].to_numpy()
    check.looked_at = times.size
    for said in _grid_faults(facts, times):
        check.fail(said)

    arrival = facts.arrival()
    started = until(facts.start, times)
    units = _units(facts)
    expected: dict[str, NDArray[Any]] = {
        "running_jobs": started - until(facts.finish, times),
        "queued_jobs": until(arrival, times) - started,
        "queued_gpus": until(arrival, times, units) - until(facts.start, times, units),
    }
    if facts.preemptive:
        # Between two runs a job waits; without its stretches nothing tells when that was.
        recorded = facts.outcome.allocations is not None
        expected = _in_stretches(facts, eps, arrival, times) if recorded else {}
    if facts.outcome.allocations is not None:
        expected["busy_gpus"] = busy_gpus(facts, times)
        wide = (eps.servers > 1) & (eps.end > eps.start)
        spanning = until(eps.start[wide], times) - until(eps.end[wide], times)
        expected["spanning_jobs"] = spanning
        busy = parts.p > 0
        contention = until(parts.start[busy], times, parts.p[busy]) - until(
            parts.end[busy], times, parts.p[busy]
        )
        expected["mean_contention"] = contention / np.maximum(spanning, 1)
    if facts.shared:  # thousandths, rounded to whole GPUs
        for name in {"queued_gpus", "busy_gpus"} & set(expected):
            expected[name] = (expected[name] + WHOLE // 2) // WHOLE
    slack = {}
    drawn = energy.watts(facts, times) if "watts" in timeline.columns else None
    if drawn is not None:
        expected["watts"], most = drawn
        slack["watts"] = RELATIVE * most  # a sum of all changes so far
    for name, values in expected.items():
        found = timeline[name].to_numpy()
        wrong = np.abs(found.astype(np.float64) - values) > RELATIVE * np.abs(values) + slack.get(name, 0.0)
        bad = np.flatnonzero(wrong)
        check.add(
            (
                Finding(
                    check.code,
                    f"{name} is {number(found[k])}; expected {number(values[k])}",
                    time=float(times[k]),
                )
                for k in bad
            ),
            bad.size,
        )


def _units(facts: Facts) -> Ints:
    """GPUs that each job asks for, in thousandths where some ask for shares."""
    return np.rint(facts.weight * WHOLE).astype(np.int64) if facts.shared else facts.num_gpus


def _in_stretches(facts: Facts, eps: Episodes, arrival: Floats, times: Floats) -> dict[str, NDArray[Any]]:
    """Who runs and who waits where jobs run in several stretches."""
    last = np.append(eps.job[1:] != eps.job[:-1], True)[: eps.job.size]
    units = _units(facts)
    gpus = units[eps.job]  # those asked for: what it holds may be others
    rests = rungs.rests(facts, eps)
    preempted = np.where(np.isnan(rests), eps.end, rests)[~last]
    started, started_gpus = until(eps.start, times), until(eps.start, times, gpus)
    back, back_gpus = until(preempted, times), until(preempted, times, gpus[~last])
    return {
        "running_jobs": started - until(eps.end, times),
        "queued_jobs": until(arrival, times) + back - started,
        "queued_gpus": until(arrival, times, units) + back_gpus - started_gpus,
    }


def _grid_faults(facts: Facts, times: Floats) -> Iterator[str]:
    first, last = float(facts.submit.min()), float(facts.finish.max())
    sample = facts.options.get("sample")
    if times.size == 0:
        yield "there are no samples"
        return
    if times[0] != first:
        yield f"the first sample is at {number(times[0])} s; the first submission at {number(first)} s"
    if sample is None:
        if times.size != DEFAULT_POINTS and last > first:
            yield f"{times.size} samples; expected {DEFAULT_POINTS}"
            return
        step = (last - first) / max(1, times.size - 1)
        if not math.isclose(times[-1], last, rel_tol=RELATIVE):
            yield f"the last sample is at {number(times[-1])} s; the last finish at {number(last)} s"
    else:
        step = float(sample)
        if not last - step <= times[-1] <= last + step:
            yield f"the last sample is at {number(times[-1])} s; the last finish at {number(last)} s"
    even = first + step * np.arange(times.size)
    slack = 1e-6 * step + RELATIVE * max(abs(first), abs(last))
    off = np.flatnonzero(np.abs(times - even) > slack)
    if sample is not None:
        off = off[off < times.size - 1]  # the last one may lie at the end of the run instead
    if off.size:
        k = int(off[0])
        yield f"sample {k + 1} is at {number(times[k])} s; expected {number(even[k])} s"
