"""The options of `replay` and `plan`, and the policies, as the engine's library declares them.

They stand in rust/options/table.rs, rust/policy and rust/policies.rs. What type checkers need to know of the
options is in `option_types.pyi`, which is made of this module.
"""

from __future__ import annotations

from typing import Final

from ringbco import _core
from ringbco.run.option import Option, Preset

BUILT_IN: Final = {name: f"ringbco.policies.{name}:{name.capitalize()}" for name in ("gavel", "allox", "sia")}
"""The policies of this package that are written as one's own are, by name."""


def _policies() -> tuple[dict[str, Preset], tuple[str, ...]]:
    """All policies, and what one may know: an order, which comes first, knows everything."""
    rows = _core.policies()
    known = [row.pop("knows") for row in rows]
    for row, knows in zip(rows, known, strict=True):
        row["refuses"] = tuple(feature for feature in known[0] if feature not in knows)
    return {row["name"]: Preset(**row) for row in rows}, known[0]


_ALL, FEATURES = _policies()
_ROWS: Final = _core.options()
_NAMED: Final = next(row["names"] for row in _ROWS["replay"] if row["name"] == "policy")
PRESETS: Final = {name: _ALL[name] for name in _NAMED}
"""The policies of `ringbco replay`, by name."""
DECIDERS: Final = {name: policy for name, policy in _ALL.items() if name not in PRESETS}
"""What decides where no policy of a name does: a log, and a caller from outside."""
CLAIRVOYANT: Final[dict[str, tuple[str, ...]]] = {part: tuple(names) for part, names in _core.clairvoyant()}
"""By part of a policy: the names that read how long a job will run."""


def _options(command: str) -> dict[str, Option]:
    """The options of a command by their parameters' names."""
    options = []
    for row in _ROWS[command]:
        names = ", ".join(row.get("names", ()))
        told = row["help"].replace("{names}", names)
        options.append(Option(**row | {"help": told}))
    return {option.parameter: option for option in options}


REPLAY: Final = _options("replay")
"""The options of `ringbco.replay`, in the order of run.toml."""
PLAN: Final = _options("plan")
"""The options of `ringbco.plan`."""
