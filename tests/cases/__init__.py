"""Random cases in which everything meets: drawn, run, compared with what must be, and made small.

A case is a replay as a user writes it (`case`). Each feature adds its part by a coin and a stream of random
numbers of its own (`draw`), so that without one the others stay as they are. Features are in the files named
below. What is refused loses features until it runs (`run`). What then must hold is in `modelled`, `figures`,
`holding` and `balance`. `shrink` makes a failure small, and `files` writes cases for tests in Rust.
"""

from importlib import import_module

for name in (
    "of_jobs",
    "of_network",
    "of_claims",
    "of_requests",
    "of_policies",
    "of_seats",
    "protection",
    "window",
    "of_tiers",
):
    import_module(f"cases.{name}")  # registers its features: in this order they are put
