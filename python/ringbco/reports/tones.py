"""The colours of reports and of the player: a result has one in every chart, table and player."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome

# What results, causes and states look like on white, each with its twin for dark screens. Results have
# hues of their own: no blue, which is waiting, no orange and red, which are being slowed.
TONES: Final = {
    "#1A7F4B": "#4cc98a",
    "#7B3FB5": "#b98af0",
    "#C2257F": "#f07ab8",
    "#7D6B00": "#cbb53a",
    "#1C1F24": "#e4e6ea",
    "#8A8F98": "#7d838d",
    "#8FC3EA": "#bcdcf5",
    "#2B7BBA": "#5aa6e0",
    "#123F6E": "#3472b8",
    "#B9BEC6": "#6d737d",
    "#DADDE2": "#454a53",
    "#F0A94B": "#f2b765",
    "#D9541E": "#f0723c",
    "#A3341C": "#d5573b",
    "#6E1F12": "#b0452f",
    # Of the paper's figures, and of a job table's statuses.
    "#0072B2": "#56a9e0",
    "#E69F00": "#f0b840",
    "#009E73": "#35c997",
    "#CC79A7": "#e09ac0",
    "#56B4E9": "#8fd0f5",
    "#D55E00": "#f5894a",
    "#5ec962": "#86dd86",
    # From no load to far too much of it: from the page's paper to what stands out.
    "#f2f2f2": "#23272e",
    "#d6e6f2": "#2b4058",
    "#9ecae9": "#41709a",
    "#4a90c2": "#6fb2e0",
    "#f6b26b": "#c98a45",
    "#e2692c": "#ef7b40",
    "#9c1c10": "#ff9a86",
    # Of values that ascend.
    "#a9cbe8": "#33506d",
    "#7fb0dc": "#47709a",
    "#558fc8": "#6490bd",
    "#346fae": "#86b0d9",
    "#1f5089": "#abcdec",
    "#10335e": "#d3e6f7",
}
SHADES: Final = tuple(TONES)[-6:]
COLOURS: Final = tuple(TONES)[:6]
"""Of the first five results, and of all others."""
GREY: Final = COLOURS[-1]
FIRST: Final = 5
"""Results that have a colour; those after them are grey."""
_OF_BASELINE: Final = 4
"""The place of its colour."""
DASHES: Final = ([1, 0], [7, 3], [2, 2], [10, 3, 2, 3], [5, 2], [1, 0])


def tone_name(colour: str) -> str:
    """The style sheet's variable for one of the charts' colours."""
    return f"--c{list(TONES).index(colour)}"


class Ranked(dict[str, Outcome]):
    """Results by label, the best first, and the label of the one that the others are held against."""

    def __init__(self, results: Mapping[str, Outcome], baseline: str) -> None:
        super().__init__(results)
        self.baseline = baseline


def looks(results: Iterable[str]) -> dict[str, int]:
    """The place of each result in `COLOURS` and `DASHES`, the same in every chart and table.

    Of several results the baseline has its own, whatever its rank; the others go to the best of the rest.
    """
    labels, baseline = list(results), getattr(results, "baseline", None)
    if baseline not in labels or len(labels) == 1:
        return {label: min(number, FIRST) for number, label in enumerate(labels)}
    free = iter((*range(_OF_BASELINE), *range(_OF_BASELINE + 1, FIRST)))
    return {label: _OF_BASELINE if label == baseline else next(free, FIRST) for label in labels}


def ranked(results: Comparison | Mapping[str, Outcome]) -> Ranked:
    """The results, the best first, and their baseline."""
    comparison = as_comparison(results).best_first
    return Ranked(comparison.outcomes, comparison.baseline_label)
