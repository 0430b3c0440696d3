"""Traces that the processes of this machine share: each is a file, which they map into their memory."""

from __future__ import annotations

import io
import mmap
import pickle
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.io.process import scratch_folder

if TYPE_CHECKING:
    from types import TracebackType

    from ringbco.sweeps.objects import Trace

_ALIGNED: Final = 64  # bytes, as Arrow has its columns
_KEPT: Final = 2


class Mapped(NamedTuple):
    """What stands for a trace among the arguments of a task: its file, and where in it its columns are.

    head: the trace, pickled without them.
    """

    path: str
    head: bytes
    places: tuple[tuple[int, int], ...]

    def trace(self) -> Trace:
        """The trace, the same one whenever this process asks. Its columns are read when they are used."""
        return _mapped(self)


class Maps:
    """Writes traces into a folder of its own, which is gone at the end of the block."""

    def __enter__(self) -> Maps:
        self._scratch = scratch_folder("ringbco-sweep-")
        self._folder = self._scratch.__enter__()
        self._written = 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.__exit__(kind, error, trace)

    def __call__(self, trace: Trace) -> Mapped | Trace:
        """What stands for the trace, with its table; the trace itself where the file cannot be written."""
        path = self._folder / str(self._written)
        self._written += 1
        columns: list[pickle.PickleBuffer] = []
        head = io.BytesIO()
        _Pickler(head, protocol=5, buffer_callback=columns.append).dump(trace)
        places = []
        try:
            with path.open("wb") as file:
                for column in columns:
                    file.write(bytes(-file.tell() % _ALIGNED))
                    places.append((file.tell(), file.write(column.raw())))
        except OSError:
            path.unlink(missing_ok=True)
            return trace
        return Mapped(str(path), head.getvalue(), tuple(places))


class _Pickler(pickle.Pickler):
    """Leaves the memory of a frame's columns out, too."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, pl.DataFrame):
            return NotImplemented
        file = io.BytesIO()
        # In one piece: columns of a job table are views of memory, not copies put together.
        value.rechunk().write_ipc(file, compression="uncompressed", record_batch_size=max(value.height, 1))
        return _frame, (pickle.PickleBuffer(file.getbuffer()),)


def _frame(columns: Any) -> pl.DataFrame:
    import pyarrow as pa

    frame = pl.from_arrow(pa.ipc.open_file(pa.py_buffer(columns)).read_all(), rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


@lru_cache(maxsize=_KEPT)
def _mapped(told: Mapped) -> Trace:
    with open(told.path, "rb") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    columns = [memory[first : first + length] for first, length in told.places]
    trace: Trace = pickle.loads(told.head, buffers=columns)
    return trace
