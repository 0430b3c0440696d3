"""What a comparison over several seeds says in words: the same on the terminal, in JSON and on pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ringbco.result.seeds import FEW_DRAWS, FEW_WEEKS, SAME_JOBS, Drawn, Paired

if TYPE_CHECKING:
    from ringbco.result.figures import Figure

_MOST_DIGITS: Final = 6
FOUND: Final = "57 to 93 %"
"""Coverage found of intervals of 95 % from traces of 4 weeks (docs/intervals.md)."""
_WEEKS: Final = 4


class Compared(Protocol):
    """What is read of a comparison."""

    @property
    def outcomes(self) -> Mapping[str, object]: ...  # noqa: D102
    @property
    def repeated(self) -> Mapping[str, object]: ...  # noqa: D102
    @property
    def drawn(self) -> Mapping[str, Drawn]: ...  # noqa: D102
    @property
    def against(self) -> str: ...  # noqa: D102
    @property
    def shown(self) -> Mapping[Figure, object]: ...  # noqa: D102
    @property
    def seeds(self) -> int: ...  # noqa: D102
    def paired(self, label: str, key: str) -> Paired | None: ...  # noqa: D102
    def values(self, label: str, key: str) -> Sequence[object]: ...  # noqa: D102


def differences(comparison: Compared, also: str | None = None) -> list[str]:
    """How far the others' main figures are from the baseline's: a sentence a figure and label.

    also: another measure to speak of.
    """
    measures = [
        measure
        for measure in comparison.shown
        if (measure.told == "headline" and measure.spread) or measure.key == also
    ]
    return [text for measure in measures for text in _of(comparison, measure)]


def _of(comparison: Compared, measure: Figure) -> Iterator[str]:
    for label in comparison.outcomes:
        text = difference(comparison, label, measure)
        if text is not None:
            yield text


def difference(comparison: Compared, label: str, measure: Figure) -> str | None:
    """How far a label's figure is from the baseline's; None where seeds tell nothing of that."""
    against = comparison.against
    found = comparison.paired(label, measure.key)
    if label == against or found is None:
        return None
    drawn = comparison.drawn.get(label, SAME_JOBS)
    runs = drawn.seeds(len(comparison.values(label, measure.key)))
    return sentence(label, against, measure, found, how(drawn, runs))


def how(drawn: Drawn, count: int) -> str:
    """By what a difference is known."""
    return f"paired, {count} {'draws' if drawn.kind == 'resampled' else 'seeds'}"


def sentence(label: str, against: str, measure: Figure, found: Paired, by: str) -> str:
    """One difference in words."""
    title = measure.title
    if found.verdict == "the same":
        return f"{_whose(label)} {title} is the same as {_whose(against)} ({by})"
    if found.share is None:
        value, ends = found.difference, found.ends
        low, high = ends or (value, value)
        texts = [measure.show(abs(number)) for number in (value, low, high)]
        unit = ""
        signs = ["-" if number < 0 else "" for number in (value, low, high)]
    else:
        value = found.share
        low, high = found.interval or (value, value)
        texts = percents([abs(value), abs(low), abs(high)])
        unit = " %"
        signs = ["-" if number < 0 else "" for number in (value, low, high)]
    if found.verdict == "not apart":
        texts = [sign + text for sign, text in zip(signs, texts, strict=True)]
        return (
            f"{label} and {against} cannot be told apart by {title}:"
            f" {texts[0]}{unit} [{texts[1]}, {texts[2]}] ({by})"
        )
    ends_text = sorted([(abs(low), texts[1]), (abs(high), texts[2])])
    interval = f" [{ends_text[0][1]}, {ends_text[1][1]}]" if found.ends is not None else ""
    unknown = ", no interval" if found.ends is None else ""
    side = "below" if value < 0 else "above"
    return f"{_whose(label)} {title} is {texts[0]}{unit}{interval} {side} {_whose(against)} ({by}{unknown})"


def notes(comparison: Compared) -> list[str]:
    """What the seeds are, and how far they can be trusted."""
    kinds = dict.fromkeys(comparison.drawn.get(label, SAME_JOBS) for label in comparison.repeated)
    return [text for kind in kinds for text in notes_of(kind, comparison.seeds)]


def notes_of(drawn: Drawn, seeds: int) -> list[str]:
    """What seeds of that kind are, and how far they can be trusted."""
    if drawn.kind == "same jobs":
        return [
            "the seeds change ties, models and random placement only: they do not tell how another month"
            " would be (docs/intervals.md)"
        ]
    if drawn.kind == "generated":
        return ["each seed has jobs of its own, which generate made anew"]
    weeks, block = drawn.weeks or 0.0, drawn.block or 1.0
    told = [
        f"the figures are of the recorded jobs; intervals and ranges are of {seeds} draws of their days"
        f" ({weeks:.1f} weeks, blocks of {block:g} {'day' if block == 1 else 'days'} in the mean)"
    ]
    if weeks <= 1.0:
        told.append("no interval: a week or less says nothing of other weeks")
    else:
        if seeds < FEW_DRAWS:
            told.append(f"few draws: fewer than {FEW_DRAWS}")
        if weeks < FEW_WEEKS:
            told.append(
                f"few weeks: in simulations of {_WEEKS} weeks intervals of 95 % held the truth in {FOUND} of"
                " the traces (docs/intervals.md)"
            )
    return told


def percents(shares: Sequence[float]) -> list[str]:
    """Shares as percentages with one digit, or as many more as keep those apart that are not the same."""
    texts: list[str] = []
    for digits in range(1, _MOST_DIGITS + 1):
        texts = [f"{100.0 * share:.{digits}f}" for share in shares]
        zeros = any(share and not float(text) for share, text in zip(shares, texts, strict=True))
        if not zeros and len(set(texts)) >= len(set(shares)):
            break
    return texts


def _whose(label: str) -> str:
    return f"{label}'" if label.endswith("s") else f"{label}'s"
