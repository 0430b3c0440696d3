"""How much memory this process may have, and what is said where it is not enough."""

from __future__ import annotations

import errno
import re
import resource
from typing import Final

from ringbco.io.system import c_function, is_linux

_WORDS: Final = re.compile("[Cc]annot allocate memory|alloc of size|memory allocation|start new thread")


def memory_limit() -> int | None:
    """Bytes of addresses that the process may use (`ulimit -v`); None where there is no limit.

    macOS takes such a limit and does not keep it.
    """
    if not is_linux():
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit in (resource.RLIM_INFINITY, -1) else limit


def out_of_memory(limit: int | None) -> str:
    """What a command says that has run out of memory."""
    if limit is None:
        return "out of memory; give the process more, or run it elsewhere"
    return f"out of memory: the process may use {limit / 1e6:,.0f} MB; raise `ulimit -v`, or run it elsewhere"


def raise_lack(error: BaseException) -> None:
    """Raises MemoryError where a reader failed for want of memory; not where a damaged file asked for it.

    Where nothing is limited, no sound file asks for more than there is.
    """
    number = getattr(error, "errno", None)
    if memory_limit() is not None and (
        isinstance(error, MemoryError) or number == errno.ENOMEM or _WORDS.search(str(error))
    ):
        raise MemoryError from error


def give_back() -> None:
    """Gives the system the pages of memory that was freed, where the C library keeps such."""
    if trim := c_function("malloc_trim"):
        trim(0)
