"""Jobs made elastic: how few and how many GPUs each may hold, and how noisy its gradients are.

The catalogue says of each model of `profiles.CATALOGUE` how many samples a GPU works on in an iteration and
how large the gradient noise scale is (docs/noise-scales.md). For example, with 0.5:2 a job of 8 GPUs that
trains ResNet-50 may hold 4 to 16, with 64 images a GPU and a noise scale of 31,000 images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from ringbco.errors import UsageError
from ringbco.trace import profiles
from ringbco.trace.pods import pod_sizes

SHARE: Final = 0.5
"""Of the jobs, where nothing else is said."""
_MOST: Final = 1000
_MOST_GPUS: Final = 2**32 - 1
_NUMBER: Final = r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*"
_ADDED: Final = ("min_gpus", "max_gpus", "noise_scale")


class Gradients(NamedTuple):
    """samples: of an iteration on each GPU, as the profile's compute time was measured. noise_scale: samples.

    source: where `noise_scale` comes from. What a sample is depends on the model: an image, a token, a pair.
    """

    samples: int
    noise_scale: float
    sample: str
    source: str


_POLLUX: Final = "profiles of Pollux (Qiao et al., OSDI 2021; github.com/petuum/adaptdl, osdi21-artifact)"
_IMAGENET: Final = (
    f"ResNet-50 on ImageNet, {_POLLUX}; of the order that McCandlish et al. (arXiv 1812.06162) report for"
    " ImageNet, and they find that it depends on the model by its loss alone"
)
_BERT: Final = f"BERT-base fine-tuned on SQuAD, {_POLLUX}"
_TOKENS: Final = (
    "Brown et al. (arXiv 2005.14165, table 2.1): the batch of their models of 125 and of 350 million"
    " parameters, which they chose by the measured noise scale"
)


def _images(samples: int) -> Gradients:
    return Gradients(samples, 31_000.0, "images", _IMAGENET)


def _tokens(samples: int) -> Gradients:
    return Gradients(samples, 500_000.0, "tokens", _TOKENS)


GRADIENTS: Final = {
    "ResNet-50": _images(64),
    "ResNet-152": _images(32),
    "Inception-v3": _images(64),
    "VGG-16": _images(64),
    "SE-ResNeXt-101": _images(32),
    "EfficientNet-B0": _images(64),
    "EfficientNet-B4": _images(64),
    "NCF": Gradients(1_048_576, 6_300_000.0, "pairs", f"NCF on MovieLens, {_POLLUX}"),
    "Transformer-big": _tokens(5_120),
    "Transformer-XL": _tokens(32 * 192),
    "BERT-base": Gradients(64, 1_800.0, "sequences", _BERT),
    "BERT-large": Gradients(64, 1_800.0, "sequences", _BERT),
    "GPT-2": _tokens(8 * 1024),
    "GPT-2-medium": _tokens(4 * 1024),
}
"""By the name in `profiles.CATALOGUE`, each of which is here."""


@dataclass(frozen=True)
class Elastic:
    """How jobs are made elastic: `parse` gives one.

    low, high: the least and the most GPUs, as multiples of num_gpus; low <= 1 <= high. share: of the jobs.
    """

    low: Fraction
    high: Fraction
    share: float
    seed: int
    text: str

    def described(self) -> dict[str, object]:
        """What repeats it, for a job table's footer."""
        return {"elastic": self.text, "elastic_share": self.share, "elastic_seed": self.seed}

    def apply(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """The frame of a job table with the chosen jobs made elastic, and how many they are.

        A job is chosen by a hash of (seed, job_id). Jobs of a share of a GPU, of pods of several GPUs, and
        those whose range is num_gpus alone, stay rigid. Raises UsageError where the table has elastic jobs,
        or noise scales, already.
        """
        for name in _ADDED:
            if name in frame.columns and frame[name].null_count() < frame.height:
                raise UsageError(
                    f"option elastic: the trace has a column {name} of its own; leave the option out, or the"
                    " column"
                )
        asked = frame["num_gpus"].to_numpy().astype(np.int64)
        least = np.maximum(1, -(-asked * self.low.numerator // self.low.denominator))
        most = np.minimum(_MOST_GPUS, asked * self.high.numerator // self.high.denominator)
        drawn = profiles.drawn(frame["job_id"], 2**63 + self.seed)
        chosen = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53 < self.share
        chosen &= least < most
        if "gpu_share" in frame.columns:
            chosen &= frame["gpu_share"].is_null().to_numpy()
        chosen &= pod_sizes(frame) == 1
        entry = profiles.entries(frame, self.seed)
        known = [GRADIENTS[profile.name] for profile in profiles.CATALOGUE]
        names = pl.Series([profile.name for profile in profiles.CATALOGUE]).gather(entry)
        scale = np.array([gradients.noise_scale for gradients in known])[entry]
        samples = np.array([gradients.samples for gradients in known], np.uint32)[entry]
        absent = {name: dtype for name, dtype in _READ.items() if name not in frame.columns}
        frame = frame.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in absent.items())
        elastic, profiled = pl.Series(chosen), frame["fp_time"].is_null() & frame["bp_time"].is_null()
        made = frame.with_columns(
            pl.when(elastic).then(pl.Series(least.astype(np.uint32))).alias("min_gpus"),
            pl.when(elastic).then(pl.Series(most.astype(np.uint32))).alias("max_gpus"),
            pl.when(elastic).then(pl.Series(scale)).alias("noise_scale"),
            # A batch beside fp_time would change how long an iteration takes.
            pl.when(elastic & profiled & frame["batch_size"].is_null())
            .then(pl.Series(samples))
            .otherwise(pl.col("batch_size"))
            .alias("batch_size"),
            pl.when(elastic & frame["model"].is_null()).then(names).otherwise(pl.col("model")).alias("model"),
        )
        return made.drop(name for name in ("fp_time", "bp_time") if name in absent), int(chosen.sum())


_READ: Final = {
    "fp_time": pl.Float64(),
    "bp_time": pl.Float64(),
    "batch_size": pl.UInt32(),
    "model": pl.String(),
}


def parse(text: str, *, share: float = SHARE, seed: int = 0) -> Elastic:
    """What LOW:HIGH says, such as 0.5:2: from half to twice of num_gpus. Raises UsageError."""
    found = re.fullmatch(f"{_NUMBER}:{_NUMBER}", text, re.ASCII)
    low, high = (Fraction(number) for number in found.groups()) if found else (Fraction(0), Fraction(0))
    if not 0 < low <= 1 <= high <= _MOST or low == high:
        raise UsageError(
            f"option elastic: {text!r}: expected LOW:HIGH, multiples of num_gpus with 0 < LOW <= 1 <= HIGH <="
            f" {_MOST}, not both 1, such as 0.5:2"
        )
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise UsageError(f"option elastic-share: {share}: expected a share of the jobs above 0 and at most 1")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise UsageError(f"option seed: {seed}: expected an integer from 0 to {2**64 - 1}")
    return Elastic(low, high, float(share), seed, text)
