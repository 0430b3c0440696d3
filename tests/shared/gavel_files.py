"""A small trace of Gavel's, and measured throughputs of its two models."""

from __future__ import annotations

from typing import Any

LINE = "{}\tpython3 main.py --batch_size 5\tlanguage_modeling\t--steps\t1\t{}\t{}\t{}\t{}\t{}\n"
TRACE = (
    LINE.format("LM (batch size 5)", 3000, 2, 1, "-1.000000", 7)
    + LINE.format("A3C", 100, 1, 2.5, "1.2", 0)
    + LINE.format("LM (batch size 5)", 10, 1, 1, "-1", "9.5")
)
LM, A3C = "('LM (batch size 5)', {})", "('A3C', {})"
THROUGHPUTS: dict[str, Any] = {
    "v100": {
        LM.format(1): {"null": 10.0, A3C.format(1): [4.0, 2.0]},
        LM.format(2): {"null": 15},
        A3C.format(1): {"null": 0.0, LM.format(1): [0.0, 0.0]},
    },
    "k80": {LM.format(1): {"null": 2.0}, LM.format(2): {"null": 3.0}, A3C.format(1): {"null": 0.5}},
    "v100_unconsolidated": {LM.format(1): {"null": 9.0}, LM.format(2): {"null": 12.0}},
    "k80_unconsolidated": {LM.format(2): {"null": 0.0}},
}
