"""What is text but no table: YAML, and what the commands of Slurm and Kubernetes print for people."""

from __future__ import annotations

import re
from typing import Final

from ringbco.errors import InputError

SACCT: Final = (
    "sacct -a -X -D -P -S DATE -E now -o JobID,Cluster,User,Account,Partition,QOS,State,Submit,Eligible,"
    "Start,End,ElapsedRaw,Suspended,Timelimit,NNodes,AllocTRES,ReqTRES,NodeList,Priority"
)
"""The command that exports a log of Slurm whole."""
_JOBS: Final = (
    f"export the log with `{SACCT} > jobs.psv`, then `ringbco convert slurm jobs.psv -o jobs.parquet`"
)
_LIVE: Final = f"it lists jobs that wait or run: {_JOBS}"
_NODES: Final = "it lists servers: give them as --cluster SxG or in a cluster file; jobs come from `sacct`"
_ROWS: Final = "write its jobs as CSV, one row per job, under the header job_id,submit_time,num_gpus,duration"
_SCONTROL: Final = re.compile(r"(Job|Node|Partition|Reservation)(Id|Name)=\S+(\s|$)")
# A key and nothing that would part the cells of a table; blanks after the colon, or it is a time of day.
_YAML: Final = re.compile(r"(- +)?[A-Za-z_][\w.\-/]*:( [^,;\t|]*)?")
_NEXT: Final = re.compile(r"- .*|[A-Za-z_][\w.\-/]*:( .*)?")
_KIND: Final = re.compile(r"^kind: *(\w+)", re.MULTILINE)
# The first words of what a command prints in columns of blanks; the command; what to do.
_COLUMNS: Final = (
    (("JOBID", "PARTITION"), "squeue", _LIVE),
    (("PARTITION", "AVAIL"), "sinfo", _NODES),
    (("NODELIST", "NODES"), "sinfo", _NODES),
    (("NAME", "READY"), "kubectl get pods", _ROWS),
    (("NAMESPACE", "NAME"), "kubectl get", _ROWS),
    (("NAME", "STATUS"), "kubectl get", _ROWS),
)


def not_a_table(file: str, head: str) -> InputError | None:
    """What to raise for a file that begins with `head`, if it is such text; else None."""
    found = _named_format(head)
    return (
        None if found is None else InputError(f"is {found[0]}, not a table of jobs", file=file, hint=found[1])
    )


def _named_format(head: str) -> tuple[str, str] | None:
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    bare = [line for line in lines if not line.startswith("#")]
    if not bare:
        return None
    shown = _SCONTROL.match(bare[0])
    if shown:
        what = shown[1].lower()
        return f"the output of `scontrol show {what}`", _LIVE if what == "job" else _NODES
    for line in bare[:2]:  # squeue -l prints the date first
        for begins, command, hint in _COLUMNS:
            if tuple(line.split()[:2]) == begins and not re.search(r"[,;\t|]", line):
                return f"the output of `{command}`", hint
    if bare[1:] and re.fullmatch(r"-+( +-+)+", bare[1]):
        return "the output of `sacct` in columns cut to their width (line 2 is dashes)", f"use -P: {_JOBS}"
    keys = bool(bare[1:] and _YAML.fullmatch(bare[0]) and _NEXT.fullmatch(bare[1]))
    if keys or bare[0] == "---" or bare[0].startswith("%YAML"):
        kind = _KIND.search(head)
        kubernetes = kind is not None and "apiVersion:" in head
        return f"YAML of Kubernetes (kind {kind[1]})" if kubernetes and kind else "YAML", _ROWS
    return None
