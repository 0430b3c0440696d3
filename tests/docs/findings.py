"""Sentences of pages that tell what tables say: a bullet by its bold words, and the numbers in it."""

import re


def finding(page: str, title: str) -> str:
    """The bullet that begins with these bold words."""
    (result,) = (line for line in page.splitlines() if line.startswith(f"- **{title}"))
    return result


def numbers(text: str) -> list[float]:
    """Every number of a text, in order, but for those in names and in `code`."""
    text = re.sub(r"`[^`]*`", "", text)
    result = re.findall(r"(?<![\w/.])\d[\d,]*(?:\.\d+)?(?!\w)", text)
    return [float(number.replace(",", "")) for number in result]


def changes(text: str) -> list[str]:
    """Every change that a text tells, in order, in the words of `change`."""
    return re.findall(r"[\d,.]+ % (?:more|less)|the same|[\d,.]+ times as much", text)


def change(ratio: float, form: str = ".0f") -> str:
    """A ratio in words: 10 % more, 3 % less, the same, 2.5 times as much."""
    if ratio >= 2:
        return f"{ratio:.1f} times as much"
    if abs(ratio - 1) < 0.005:
        return "the same"
    return f"{abs(ratio - 1) * 100:{form}} % {'more' if ratio > 1 else 'less'}"
