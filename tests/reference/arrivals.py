"""The reference model of arrivals, straight from docs/model.md. Nothing here imports ringbco."""

from typing import Any


class Arriving:
    """How jobs come into a world."""

    jobs: Any
    future: list[int]
    result: Any

    def arrival_of(self, row: int) -> float:
        """When a job arrives, s; infinite while that is open. Jobs after others are `chains`'."""
        return float(self.jobs[row].submit)

    def note_ends(self) -> None:
        """Sees who is gone by now."""

    def take_arrivals(self, now: float) -> list[int]:
        """Who arrives by now, s, and has not."""
        self.note_ends()
        came = [row for row in self.future if self.arrival_of(row) <= now]
        for row in came:
            self.future.remove(row)
            self.result.arrival[row] = self.arrival_of(row)
        return came
