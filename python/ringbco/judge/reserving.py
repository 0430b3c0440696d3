"""What conservative backfilling decides (docs/operators.md), as far as the book tells it.

Which GPU of a server a job holds is in no table, and reservations hang on it. So what is known of a pass is
who may start in it at all; who must, since nobody before it has a reservation; and that there is room.
"""

from __future__ import annotations

from ringbco.judge.deciding import Fault, UnclearError
from ringbco.judge.given import Stay
from ringbco.judge.queue import Queue


class Reserving(Queue):
    """A queue whose first jobs have reservations at each pass."""

    def decide(self, out: list[Stay], come: list[Stay]) -> None:
        """Starts those at the front for which there is room, and of the others those that the book starts."""
        if out or self.evicts or self.quotas:
            raise UnclearError  # whoever is evicted, or passed over, leaves no trace of whose turn it was
        floor, places, turn = self.floor, self.places, -1
        begun = {stay.job: stay for stay in come}
        blocked = False
        for _ in range(int(self.given.options["reservations"])):
            if (turn := places.after(turn)) < 0 or (blocked and not begun):
                break
            job = self.job_at[turn]
            floor.looks += 1
            if job in self.doubtful and any(other in self.place for other in self.doubtful[job]):
                raise UnclearError
            stay = begun.pop(job, None)
            if blocked and stay is None:
                continue
            parts = self._found(job, floor.find)
            if parts is None:
                blocked = True
                if stay is not None:
                    begun[job] = stay  # where there is no room
                continue
            if blocked and stay is not None:
                # Where reservations leave room. Of a server it has other GPUs then, and their U grows.
                self.lost |= bool(floor.load)
                parts = self.parts(stay)
            self._begin(job, parts)

    def early(self, job: int, where: str, waiting: list[int]) -> Fault:
        """It is not among the first, or is where its placement finds no room."""
        if self._is_first(job):
            return Fault("placement", job, self.time, f"holds {where}, where the placement finds no room")
        most = int(self.given.options["reservations"])
        said = f"starts, but is not among the first {most} that wait, which alone have reservations"
        return Fault("reservation", job, self.time, said)

    def _is_first(self, job: int) -> bool:
        """Whether a job that waits was among the first at this pass; those that started went before it."""
        started = [other for other in self.touched if self.place_of(other) < self.place_of(job)]
        ahead = sum(1 for place in self.places if place < self.place_of(job))
        return ahead + len(started) < int(self.given.options["reservations"])
