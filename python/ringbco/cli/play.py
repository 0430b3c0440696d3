"""`ringbco play`: results as a page in which they happen again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ringbco.cli.options import takes
from ringbco.io.terminal import say, say_json

_ROWS: Final = """
folders DIR [DIR2]: One or two result folders of `ringbco replay`.
out --out -o PAGE.html: The page to write.
start --from TIME: From this time on, on the job table's clock: seconds, a text such as 12d, or a date such as
  2024-05-01T06:30 where the table has an epoch. Default: the run's first instant or, of a run larger than a
  page holds, before its longest queue.
end
servers
title
force: Replace an earlier page.
as_json --json: Print what was written as JSON and nothing else.
quiet
"""


@takes(_ROWS)
def play(
    folders: list[Path],
    *,
    out: Path,
    start: str | None = None,
    end: str | None = None,
    servers: str | None = None,
    title: str | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Play a result: GPUs coloured by job, the queue beside them, a slider over time.

    Two results play side by side on one clock. The page is one file that needs no network. It holds at most
    500,000 rows of allocations; for larger runs it shows the time around the longest queue, and says so.

    Example: ringbco play fifo sjf-bco -o play.html
    """
    from ringbco.reports.player import play as write
    from ringbco.units import duration

    written = write(folders, out, start=start, end=end, servers=servers, title=title, force=force)
    if as_json:
        told = {"page": str(out), "bytes": written.bytes, "results": list(written.results)}
        say_json(told | {"from": written.start, "to": written.end, "servers": written.servers})
    elif not quiet:
        shown = f"{duration(written.end - written.start)} on {written.servers:,} servers"
        say(f"{out}: {' and '.join(written.results)}, {shown}, {written.bytes / 1e6:.1f} MB")
        if written.note:
            say(written.note)
