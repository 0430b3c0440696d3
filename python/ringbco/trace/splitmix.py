"""Numbers that follow from a seed or a text alone: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), FNV-1a."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from ringbco.io.threads import at_once

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

_BLOCK: Final = 1 << 16
_FEW: Final = 16  # texts that are not worth a step of numpy's
GOLDEN: Final = 0x9E3779B97F4A7C15
"""What a generator's state grows by before each output, modulo 2^64."""


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output of each state, uniform over 64 bits, written over it."""
    for first in range(0, state.size, _BLOCK):  # a block fits in the cache
        part = state[first : first + _BLOCK]
        part ^= part >> np.uint64(30)
        part *= np.uint64(0xBF58476D1CE4E5B9)
        part ^= part >> np.uint64(27)
        part *= np.uint64(0x94D049BB133111EB)
        part ^= part >> np.uint64(31)
    return state


def fnv1a(texts: pl.Series, block: int = _BLOCK) -> NDArray[np.uint64]:
    """64-bit FNV-1a of the UTF-8 bytes of each text; linear in their bytes.

    A block of rows and one byte position at a time, as long as several texts reach so far. The ends of the
    few longer ones are taken byte by byte. Most often all texts of a block are as long.
    """
    hashes = np.full(texts.len(), 0xCBF29CE484222325, dtype=np.uint64)
    prime = 0x100000001B3

    def work_out(first: int) -> None:
        part = texts.slice(first, block)
        lengths = part.str.len_bytes().to_numpy().astype(np.int64)
        data = np.frombuffer(part.str.join("").item().encode("utf-8"), dtype=np.uint8)
        if lengths.min() == lengths.max():
            values = hashes[first : first + block]
            for bytes_there in np.ascontiguousarray(data.reshape(lengths.size, -1).T):
                values ^= bytes_there
                values *= np.uint64(prime)
            return
        begins = np.cumsum(lengths) - lengths
        # Longest first, so that the texts that still have a byte at a position are a prefix.
        by_length = np.argsort(-lengths, kind="stable")
        begins, lengths = begins[by_length], lengths[by_length]
        values = hashes[first : first + block].copy()
        together = int(lengths[_FEW]) if lengths.size > _FEW else 0
        reaching = np.searchsorted(-lengths, -np.arange(together), side="left")
        for position, count in enumerate(reaching.tolist()):
            values[:count] ^= data[begins[:count] + position]
            values[:count] *= np.uint64(prime)
        for row in range(int(np.count_nonzero(lengths > together))):
            value = int(values[row])
            for byte in data[begins[row] + together : begins[row] + lengths[row]].tobytes():
                value = (value ^ byte) * prime % 2**64
            values[row] = value
        hashes[first + by_length] = values

    firsts = range(0, texts.len(), block)
    if len(firsts) > 1:
        at_once(partial(work_out, first) for first in firsts)
    elif firsts:
        work_out(0)
    return hashes
