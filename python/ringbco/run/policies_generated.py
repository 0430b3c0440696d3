"""The policies of `ringbco replay`, for Python.

Made by `python -m ringbco.dev.generate` of rust/policies.rs: change that.
"""

from __future__ import annotations

from typing import Final

from ringbco.run.option import Preset

PRESETS: Final[dict[str, Preset]] = {
    "fifo": Preset("fifo", "fifo", "consolidate", "strict", "none", "first come, first served", False, ()),
    "sjf": Preset("sjf", "sjf", "consolidate", "strict", "none", "shortest job first", True, ("aging",)),
    "smallest": Preset(
        "smallest", "smallest", "consolidate", "strict", "none", "smallest job first", False, ("aging",)
    ),
    "ff": Preset(
        "ff",
        "fifo",
        "first-fit",
        "strict",
        "none",
        "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)",
        False,
        (),
    ),
    "ls": Preset(
        "ls",
        "fifo",
        "least-loaded",
        "strict",
        "none",
        "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)",
        True,
        (),
    ),
    "rand": Preset(
        "rand",
        "fifo",
        "random",
        "strict",
        "none",
        "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)",
        False,
        ("seed",),
    ),
    "sjf-bco": Preset(
        "sjf-bco",
        "smallest",
        "sjf-bco",
        "strict",
        "none",
        "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)",
        True,
        ("kappa", "lambda", "variant", "aging"),
    ),
    "qssf": Preset(
        "qssf",
        "qssf",
        "consolidate",
        "strict",
        "none",
        "Hu et al., SC 2021 (Helios; arXiv 2109.01313)",
        False,
        ("predict", "aging"),
    ),
    "srtf": Preset(
        "srtf",
        "fifo",
        "consolidate",
        "strict",
        "srtf",
        "Schrage, Operations Research 1968",
        True,
        ("preempt-cost",),
    ),
    "tiresias": Preset(
        "tiresias",
        "fifo",
        "consolidate",
        "strict",
        "tiresias",
        "Gu et al., NSDI 2019",
        False,
        ("thresholds", "interval", "preempt-cost"),
    ),
    "gittins": Preset(
        "gittins",
        "fifo",
        "consolidate",
        "strict",
        "gittins",
        "Gu et al., NSDI 2019; Gittins 1979",
        False,
        ("thresholds", "interval", "preempt-cost"),
    ),
    "ftf": Preset(
        "ftf",
        "fifo",
        "consolidate",
        "strict",
        "ftf",
        "Mahajan et al., NSDI 2020 (Themis)",
        True,
        ("interval", "preempt-cost"),
    ),
    "edf": Preset(
        "edf",
        "fifo",
        "consolidate",
        "strict",
        "edf",
        "Liu and Layland, JACM 1973",
        False,
        ("admission", "preempt-cost"),
    ),
    "time-slice": Preset(
        "time-slice",
        "fifo",
        "consolidate",
        "strict",
        "time-slice",
        "Xiao et al., OSDI 2018 (Gandiva)",
        False,
        ("quantum", "preempt-cost"),
    ),
    "repack": Preset(
        "repack", "fifo", "consolidate", "strict", "repack", "ringbco", False, ("predict", "preempt-cost")
    ),
}
