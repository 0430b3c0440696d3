"""The columns of the tables of a result folder, and their types (docs/results-reference.md)."""

from __future__ import annotations

from typing import Final

import polars as pl

JOBS_SCHEMA: Final = {
    "job_id": pl.String(),
    "submit_time": pl.Float64(),
    "start_time": pl.Float64(),
    "finish_time": pl.Float64(),
    "wait_time": pl.Float64(),
    "run_time": pl.Float64(),
    "jct": pl.Float64(),
    "waited": pl.Float64(),
    "slowdown": pl.Float64(),
    "ideal_run_time": pl.Float64(),
    "num_gpus": pl.UInt32(),
    "num_servers": pl.UInt32(),
    "max_contention": pl.UInt32(),
    "preemptions": pl.UInt32(),
}
PREEMPTION_SCHEMA: Final = {  # runs in which a stay may end early, or begin with a pause
    "held_time": pl.Float64(),
    "lost_time": pl.Float64(),
    "moves": pl.UInt32(),
    "resizes": pl.UInt32(),
}
FAILURE_SCHEMA: Final = {
    "failures": pl.UInt32(),  # runs with outages
    "lost_work": pl.Float64(),  # those, and runs in which evictions or preemptions lose work
}
EVICTION_SCHEMA: Final[dict[str, pl.DataType]] = {"evictions": pl.UInt32()}  # runs in which jobs make room
LIMIT_SCHEMA: Final[dict[str, pl.DataType]] = {  # runs that enforce time limits
    "reached_limit": pl.Boolean(),
    "run_cut": pl.Float64(),
}
PAUSES_SCHEMA: Final[dict[str, pl.DataType]] = {  # runs with searches
    "pauses": pl.UInt32(),
    "paused_time": pl.Float64(),
    "group": pl.String(),
}
PRIORITY_SCHEMA: Final[dict[str, pl.DataType]] = {
    "priority": pl.Int32()
}  # job tables whose priorities differ
ELASTIC_SCHEMA: Final[
    dict[str, pl.DataType]
] = {  # job tables with jobs that may hold other GPUs than they ask for
    "run_resized": pl.Float32(),
    "held_gpu_time": pl.Float64(),
    "lost_gpu_time": pl.Float64(),
    "min_gpus": pl.UInt32(),
    "max_gpus": pl.UInt32(),
}
TIERS_SCHEMA: Final[dict[str, pl.DataType]] = {  # clusters with tiers of the network
    "max_crossing": pl.Float64(),
    "run_contention_uplinks": pl.Float32(),
}
TYPES_SCHEMA: Final[dict[str, pl.DataType]] = {"run_on_type": pl.Float32()}  # GPUs that differ
SHARES_SCHEMA: Final[dict[str, pl.DataType]] = {"gpu_share": pl.Float64()}  # job tables with shares of a GPU
CARRIED_SCHEMA: Final[dict[str, pl.DataType]] = {  # after the others, where the job table has them
    "user": pl.String(),
    "vc": pl.String(),
    "deadline": pl.Float64(),
}
CHAINS_SCHEMA: Final[dict[str, pl.DataType]] = {  # job tables with a column after
    "after": pl.String(),
    "submitted": pl.Float64(),
}
# Single precision: they explain, and nothing is computed from them. After the columns of every run.
CAUSES_SCHEMA: Final[dict[str, pl.DataType]] = {
    "wait_behind": pl.Float32(),
    "wait_gpus": pl.Float32(),
    "wait_fragmented": pl.Float32(),
    "run_spread": pl.Float32(),
    "run_contention": pl.Float32(),
}
JOBS_MORE: Final = {
    **CAUSES_SCHEMA,
    **PREEMPTION_SCHEMA,
    **FAILURE_SCHEMA,
    **EVICTION_SCHEMA,
    **LIMIT_SCHEMA,
    **PAUSES_SCHEMA,
    **PRIORITY_SCHEMA,
    **ELASTIC_SCHEMA,
    **TYPES_SCHEMA,
    **TIERS_SCHEMA,
    **SHARES_SCHEMA,
    **CARRIED_SCHEMA,
    **CHAINS_SCHEMA,
}
"""The columns of jobs.parquet that some runs have; results of earlier versions have no causes."""
ALLOCATIONS_SCHEMA: Final = {
    "job_id": pl.String(),
    "server": pl.UInt32(),
    "num_gpus": pl.UInt32(),
    "start_time": pl.Float64(),
    "end_time": pl.Float64(),
    "stay": pl.UInt32(),
}
# Job tables with shares of a GPU.
GPUS_SCHEMA: Final[dict[str, pl.DataType]] = {"gpu": pl.UInt32(), "share": pl.Float64()}
# Runs in which several jobs may hold the same GPUs.
SEATS_SCHEMA: Final[dict[str, pl.DataType]] = {"seat": pl.UInt32()}
BESIDE_SCHEMA: Final[dict[str, pl.DataType]] = {"beside": pl.String()}
STAYS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "job_id": pl.String(),
    "stay": pl.UInt32(),
    "start_time": pl.Float64(),
    "end_time": pl.Float64(),
    "num_gpus": pl.UInt32(),
    "num_servers": pl.UInt32(),
    "pause": pl.Float64(),
    "work": pl.Float64(),
    "lost": pl.Float64(),
    "lost_time": pl.Float64(),
    "began": pl.String(),
    "ended": pl.String(),
    "by_job": pl.String(),
    "by_service": pl.String(),
    "by_server": pl.UInt32(),
    "wait_behind": pl.Float64(),
    "wait_gpus": pl.Float64(),
    "wait_fragmented": pl.Float64(),
    "paused_at_rung": pl.Float64(),
}
STAY_TYPE_SCHEMA: Final[dict[str, pl.DataType]] = {"gpu_type": pl.String()}  # clusters with GPU types
STAY_SAVING_SCHEMA: Final[dict[str, pl.DataType]] = {"saving": pl.Float64()}  # checkpoints that take time
TIMELINE_SCHEMA: Final[dict[str, pl.DataType]] = {
    "time": pl.Float64(),
    "running_jobs": pl.UInt32(),
    "queued_jobs": pl.UInt32(),
    "busy_gpus": pl.UInt64(),
    "queued_gpus": pl.UInt64(),
    "spanning_jobs": pl.UInt32(),
    "mean_contention": pl.Float64(),
}
POWER_SCHEMA: Final[dict[str, pl.DataType]] = {"watts": pl.Float64()}  # clusters whose GPU types have watts
DECISIONS_SCHEMA: Final = {
    "time": pl.Float64(),
    "verb": pl.String(),
    "job_id": pl.String(),
    "server": pl.UInt32(),
    "num_gpus": pl.UInt32(),
    "gpu": pl.UInt32(),
    "share": pl.Float64(),
    "service": pl.String(),
    "replica": pl.UInt32(),
    "by": pl.String(),
    "cause": pl.String(),
}
REPLICAS_SCHEMA: Final = {
    "service": pl.String(),
    "replica": pl.UInt32(),
    "server": pl.UInt32(),
    "num_gpus": pl.UInt32(),
    "start_time": pl.Float64(),
    "end_time": pl.Float64(),
    "serves_from": pl.Float64(),
    "drains_from": pl.Float64(),
    "ended": pl.String(),
}
LATENCY_SCHEMA: Final[dict[str, pl.DataType]] = {
    "service": pl.String(),
    "time": pl.Float64(),
    "arrivals": pl.UInt32(),
    "p50_latency": pl.Float64(),
    "p99_latency": pl.Float64(),
    "queued": pl.UInt32(),
    "running": pl.UInt32(),
    "replicas_serving": pl.UInt32(),
    "replicas_wanted": pl.UInt32(),
}
REQUESTS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "row": pl.UInt32(),
    "service": pl.String(),
    "replica": pl.UInt32(),
    "start": pl.Float64(),
    "first_token": pl.Float64(),
    "finish": pl.Float64(),
}
SERVERS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "server": pl.UInt32(),
    "time": pl.Float64(),
    "what": pl.String(),
    "by": pl.String(),
}
LINKS_SCHEMA: Final[dict[str, pl.DataType]] = {
    "tier": pl.String(),
    "group": pl.String(),
    "time": pl.Float64(),
    "jobs": pl.UInt32(),
    "flows": pl.UInt64(),
    "bytes_per_second": pl.Float64(),
}
LINK_VC_SCHEMA: Final[dict[str, pl.DataType]] = {"vc": pl.String()}  # first, with virtual clusters
RUNGS_SCHEMA: Final = {
    "job_id": pl.String(),
    "group": pl.String(),
    "rung": pl.UInt32(),
    "time": pl.Float64(),
    "loss": pl.Float64(),
    "went_on": pl.Float64(),
}
SEARCHES_SCHEMA: Final = {
    "group": pl.String(),
    "trials": pl.UInt32(),
    "finished": pl.UInt32(),
    "submit_time": pl.Float64(),
    "finish_time": pl.Float64(),
    "gpu_hours": pl.Float64(),
    "best_job_id": pl.String(),
    "best_loss": pl.Float64(),
    "time_to_best": pl.Float64(),
}
