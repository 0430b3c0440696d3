"""What jobs of `generate --preset llm` train: models, how they are split over GPUs, what a GPU exchanges.

The rows are those of table 1 of Narayanan et al., Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM, SC '21 (arXiv 2104.04473): A100s, sequences of 2,048 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.trace.profiles import BYTES_PER_PARAMETER

_TOKENS: Final = 2_048


@dataclass(frozen=True)
class LanguageModel:
    """A row of that table.

    tensor, pipeline: GPUs over which each layer is split, and stages. gpus, batch: of the measured run, and
    its sequences per iteration. flops: floating-point operations per second that each of its GPUs reached.
    """

    name: str
    parameters: float
    tensor: int
    pipeline: int
    gpus: int
    batch: int
    flops: float

    @property
    def shards(self) -> int:
        """GPUs that hold one copy of the model."""
        return self.tensor * self.pipeline

    @property
    def gradient_bytes(self) -> float:
        """What each GPU exchanges with its fellows of the other copies: gradients of its own shard."""
        return BYTES_PER_PARAMETER * self.parameters / self.shards

    @property
    def sequences(self) -> int:
        """Sequences of one copy per iteration."""
        return self.batch * self.shards // self.gpus

    @property
    def compute_time(self) -> float:
        """Seconds of an iteration: 8 operations per parameter and token, the forward pass done twice."""
        return 8 * self.parameters * self.batch * _TOKENS / (self.gpus * self.flops)


MODELS: Final = (
    LanguageModel("GPT-1.7B", 1.7e9, 1, 1, 32, 512, 137e12),
    LanguageModel("GPT-3.6B", 3.6e9, 2, 1, 64, 512, 138e12),
    LanguageModel("GPT-7.5B", 7.5e9, 4, 1, 128, 512, 142e12),
    LanguageModel("GPT-18.4B", 18.4e9, 8, 1, 256, 1024, 135e12),
    LanguageModel("GPT-39.1B", 39.1e9, 8, 2, 512, 1536, 138e12),
    LanguageModel("GPT-76.1B", 76.1e9, 8, 4, 1024, 1792, 140e12),
    LanguageModel("GPT-145.6B", 145.6e9, 8, 8, 1536, 2304, 148e12),
)


def columns(num_gpus: NDArray[np.int64], rng: np.random.Generator) -> dict[str, pl.Series]:
    """model, gradient_bytes, batch_size, fp_time and bp_time of each job.

    A job's model is drawn evenly from those of which its GPUs hold a copy.
    """
    shards = np.array([model.shards for model in MODELS])
    fitting = np.searchsorted(shards, num_gpus, side="right")
    index = np.floor(rng.random(num_gpus.size) * fitting).astype(np.int64)

    def each(values: list[float]) -> NDArray[np.float64]:
        return np.array(values)[index]

    batch = each([model.sequences for model in MODELS])
    time = each([model.compute_time for model in MODELS])
    # A quarter is the forward pass, the rest its repetition and the backward pass.
    return {
        "model": pl.Series([model.name for model in MODELS]).gather(index),
        "gradient_bytes": pl.Series(each([model.gradient_bytes for model in MODELS])),
        "batch_size": pl.Series(batch, dtype=pl.UInt32),
        "fp_time": pl.Series(time / 4 / batch),
        "bp_time": pl.Series(time * 3 / 4),
    }
