"""Charts drawn by vl-convert, in a process of its own.

Its engine, V8, takes tens of gigabytes of addresses at once, and ends the process where a limit, as batch
systems set one, does not let it. It also keeps Python's lock while it draws, so that no signal is heard.
"""

from __future__ import annotations

import atexit
import json
import os
import struct
import subprocess
import sys
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from ringbco.errors import RingbcoError
from ringbco.io import process
from ringbco.io.memory import memory_limit

_CHILD: Final = """\
import json, struct, sys
sys.path.append(sys.argv[1])
import vl_convert
while head := sys.stdin.buffer.read(8):
    name, spec, more = json.loads(sys.stdin.buffer.read(*struct.unpack("Q", head)))
    try:
        made = getattr(vl_convert, name)(spec, **more)
        answer = b"+" + (made.encode() if isinstance(made, str) else made)
    except ValueError as error:
        answer = b"-" + str(error).encode("utf-8", "replace")
    sys.stdout.buffer.write(struct.pack("Q", len(answer)) + answer)
    sys.stdout.buffer.flush()
"""
LEAST_MEMORY: Final = 70_000_000_000
"""Bytes of addresses with which pictures are drawn, with some to spare (docs/reliability.md)."""


class UndrawableError(RingbcoError):
    """Pictures need more memory than the process may have: exit status 1."""


class _Drawer:
    """The process that draws; it begins with the first picture, and ends with this one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def draw(self, name: str, spec: str, more: dict[str, Any]) -> bytes:
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                self._child = self._begin()
            try:
                return self._answer(self._child, json.dumps([name, spec, more]).encode())
            except BaseException:
                self.end()
                raise

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            process.children.discard(self._child.pid)
            self._child = None

    def _begin(self) -> subprocess.Popen[bytes]:
        found = find_spec("vl_convert")
        where = os.path.dirname(os.path.dirname(found.origin or "")) if found is not None else ""
        command = [sys.executable, "-I", "-c", _CHILD, where]
        pipe = subprocess.PIPE
        with process.holding():
            # A group of its own: Ctrl-C is for this process to hear.
            child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0
            )
            process.children.add(child.pid)
        return child

    @staticmethod
    def _answer(child: subprocess.Popen[bytes], asked: bytes) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(struct.pack("Q", len(asked)) + asked)
            child.stdin.flush()
            head = child.stdout.read(8)
            answer = child.stdout.read(*struct.unpack("Q", head)) if head else b""
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise UndrawableError("pictures: the process that draws them has died; it may lack memory")
        if answer[:1] == b"-":
            raise ValueError(answer[1:].decode())
        return answer[1:]


_DRAWER: Final = _Drawer()
atexit.register(_DRAWER.end)


undrawn: Final[list[str]] = []
"""Why charts of pages were not drawn."""


def check_room() -> None:
    """Raises UndrawableError where no picture can be drawn."""
    limit = memory_limit()
    if limit is not None and limit < LEAST_MEMORY:
        raise UndrawableError(
            f"pictures need {LEAST_MEMORY / 1e9:.0f} GB of addresses, and `ulimit -v` allows"
            f" {limit / 1e9:,.1f} GB: raise it to {LEAST_MEMORY // 1000} or to unlimited"
        )


def draw(kind: str, spec: str, **more: Any) -> bytes:
    """What vl-convert makes of a chart in Vega-Lite. kind: svg, pdf or png. more: its options.

    Raises UndrawableError for want of memory.
    """
    check_room()
    return _DRAWER.draw(f"vegalite_to_{kind}", spec, more)
