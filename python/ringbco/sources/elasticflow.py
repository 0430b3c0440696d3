"""ElasticFlow's raw traces: two months of Microsoft's ITP clusters, one file a cluster.

Times count from the beginning of the collection. Who submitted a job, how it ended and which servers there
were is not published.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ringbco.sources.parsing import number, optional_text
from ringbco.sources.rules import SECONDS, asks_gpus, has_id, lasting, not_negative, timed, whole_gpus
from ringbco.sources.source import Inputs, Options, Source, Trace, by_submission, clean_csv
from ringbco.sources.tables import CsvTable

_UUID: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

JOBS: Final = CsvTable(
    role="jobs",
    what="an ElasticFlow list of jobs (clusterNN.csv)",
    columns=("job_id", "submission_time", "duration", "num_gpu"),
    required=("job_id", "submission_time", "duration", "num_gpu"),
    looks={
        "job_id": _UUID,
        "submission_time": r"\d+(\.\d+)?",
        "duration": r"\d+(\.\d+)?",
        "num_gpu": r"\d+(\.0)?",
    },
)

RULES: Final = (
    asks_gpus("num_gpu"),
    has_id("job_id"),
    whole_gpus("num_gpu"),
    *timed("submission_time", expected=SECONDS),
    not_negative("submission_time"),
    *lasting("duration"),
)


def read(inputs: Inputs, options: Options) -> Trace:
    """The job table of one cluster's file, on the collection's clock."""
    frame, account = clean_csv(
        inputs.csv("jobs"),
        [optional_text("job_id"), *map(number, ("submission_time", "duration", "num_gpu"))],
        RULES,
        unit="jobs",
        options=options,
        id_column="job_id",
    )
    frame = by_submission(
        frame.rename({"submission_time": "submit_time"}),
        ["job_id", "submit_time", "num_gpus", "duration"],
        num_gpus=pl.col("num_gpu").cast(pl.UInt32),
    )
    return Trace(
        frame,
        account,
        "2021-03-04T00:00:00",
        "the published day on which the collection began; its hour and its time zone are not published",
    )


SOURCE: Final = Source(
    name="elasticflow",
    title="ElasticFlow traces (Microsoft ITP)",
    url="https://github.com/microsoft/elasticflow-traces",
    licence="MIT",
    citation="""\
@inproceedings{gu2023elasticflow,
  author    = {Gu, Diandian and Zhao, Yihao and Zhong, Yinmin and Xiong, Yifan and Han, Zhenhua and
               Cheng, Peng and Yang, Fan and Huang, Gang and Jin, Xin and Liu, Xuanzhe},
  title     = {{ElasticFlow}: An Elastic Serverless Training Platform for Distributed Deep Learning},
  booktitle = {Proceedings of the 28th ACM International Conference on Architectural Support for
               Programming Languages and Operating Systems, Volume 2 (ASPLOS '23)},
  pages     = {266--280},
  year      = {2023},
  doi       = {10.1145/3575693.3575721}
}""",
    shapes=(JOBS,),
    needs=("jobs",),
    read=read,
    cluster_hint="the sizes of its clusters are not published; write --cluster SxG when replaying",
)
