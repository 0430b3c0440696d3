"""Random cases in which everything meets: drawn, run, held against what must be so, and made small where it is not.

A case is a replay as a user writes it (`case`). Each feature adds its part by a coin and a stream of random
numbers of its own (`draw`), so that without one the others stay as they are. What is refused loses features
until it runs (`run`). What then must hold is in `twin`, `figures` and `holding`; `shrink` makes a failure small.
"""
