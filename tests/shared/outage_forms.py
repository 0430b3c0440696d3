"""Closed forms for a single job whose server fails at random.

The job makes `length` seconds of progress. Its server fails at rate `rate` while it is up (exponential times
up) and is down for a random time of mean `down`. The job loses what it did since its last checkpoint. As soon
as the server is back the job begins a stay, which pauses `pause` seconds first; the first stay does not.
"""

from __future__ import annotations

import math


def expected_run_time(
    length: float, rate: float, interval: float, pause: float, down: float, cost: float = 0.0
) -> float:
    """The mean time from start to end, outages included.

    interval: seconds of progress between checkpoints, counted from where each stay's progress starts; inf for
    none, 0 for so many that nothing is lost. cost: seconds that a checkpoint takes, during which the job may
    fail too.

    Where a stay's progress starts is a checkpoint, itself a whole number of intervals after the start of the
    job. So all checkpoints are at multiples of the interval, and the job is a chain of segments: n of
    `interval`, and a remainder, which may be as long: there is no checkpoint at the end.

    1. Let B(x) be the mean time until x seconds pass without a failure, from an instant at which the server
       is up. Failures are memoryless. With X exponential,
           B(x) = E[min(X, x)] + P(X < x) (down + B(x)),
       where E[min(X, x)] = P(X < x) / rate and P(X < x) = 1 - exp(-rate x). Solved,
           B(x) = (1 / rate + down) (exp(rate x) - 1).
    2. A segment of s seconds is entered running: by a job that has passed the one before, or that starts. The
       first attempt takes s seconds, each later one the pause and s seconds. Its mean time is
           T(s) = E[min(X, s)] + P(X < s) (down + B(pause + s))
                = (1 - exp(-rate s)) (1 / rate + down) exp(rate (pause + s))
                = (1 / rate + down) exp(rate pause) (exp(rate s) - 1).
    3. The mean time of the job is the sum over its segments; a segment that ends with a checkpoint takes
       `cost` more. For an interval of 0, (length / interval) (exp(rate interval) - 1) becomes rate x length.

    Without outages' own time (down = 0) this is the complete cost function of Daly (see `daly`).
    """
    if interval == 0.0:
        segments = rate * length
    elif interval == math.inf:
        segments = math.expm1(rate * length)
    else:
        whole = math.ceil(length / interval) - 1  # the end is no checkpoint
        segments = whole * math.expm1(rate * (interval + cost))
        segments += math.expm1(rate * (length - whole * interval))
    return (1.0 / rate + down) * math.exp(rate * pause) * segments


def young(cost: float, mtbf: float) -> float:
    """The interval that minimises the run time, to first order.

    J. W. Young: A first order approximation to the optimum checkpoint interval. Communications of the ACM
    17 (9), 1974, pages 530 to 531.
    """
    return math.sqrt(2.0 * cost * mtbf)


def daly(cost: float, mtbf: float) -> float:
    """The interval that minimises the run time, to a higher order.

    J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps. Future
    Generation Computer Systems 22 (3), 2006, pages 303 to 312.
    """
    if cost >= 2.0 * mtbf:
        return mtbf
    part = cost / (2.0 * mtbf)
    return young(cost, mtbf) * (1.0 + math.sqrt(part) / 3.0 + part / 9.0) - cost
