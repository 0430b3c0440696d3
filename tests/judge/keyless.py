"""What a queue decides whose keys are in no table: where jobs go, and whether somebody waits in vain."""

from __future__ import annotations

from judge.deciding import Deciding, Fault, UnclearError
from judge.given import Stay
from judge.orders import orders
from judge.queue import Queue


class Keyless(Queue):
    """A queue of a `KeyPolicy`, or of an array of keys: any order may be the right one."""

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """Starts those that start, in an order in which they go where they are; then who waits in vain.

        But for `skip` the first of those that wait cannot be placed, whoever that is; under `skip` none can.
        Where one that starts may be evicted at once by another, that leaves no trace.
        """
        overtaken = self.evicts and self.given.options.get("aging") is not None
        # Others' reservations may have moved one that starts.
        moved = self.discipline == "conservative" and bool(come)
        if out or overtaken or moved or self.quotas:
            raise UnclearError
        found = orders(
            self.floor, come, self.parts, lambda stay: self._found(stay.job, self.floor.find), self._redraw
        )
        for stay in found[0] if found else come[:1]:
            parts = self.placed(stay.job)
            if parts is not None:
                self.start(stay.job, parts)
        # Other orders led there, too, with other GPUs of a server for each.
        self.lost |= self.floor.by_use and len(found) > 1
        if not found:
            return
        waiting = [self.job_at[place] for place in self.places]
        self.floor.looks += len(waiting)
        fit = [job for job in waiting if self._found(job, self.floor.find) is not None]
        if fit and (self.discipline == "skip" or len(fit) == len(waiting)):
            parts = self._found(fit[0], self.floor.find)
            if parts is not None:
                self.start(fit[0], parts)

    def early(self, job: int, where: str, waiting: list[int]) -> Fault:
        """What is wrong with a job that has GPUs, and would have none: no order counts."""
        return Deciding.early(self, job, where, waiting)

    def rests(self) -> bool:
        """Where nobody waits."""
        return not self.places
