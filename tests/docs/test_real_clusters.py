"""docs/real-clusters.md: its tables are what the published logs make, within the bounds that hold."""

from pathlib import Path

import page_examples as made
import page_tables

PAGE = Path(__file__).parents[2] / "docs" / "real-clusters.md"
TABLES = page_tables.marked(PAGE.read_text(encoding="utf-8"))
LISTED = "`tiresias --thresholds 3250,7200 --interval 360 --within list`"
# The most of: difference of the mean, median job (%); the least correlation.
FITTED = {"`srtf --interval 360`": (3.0, 4.0, 0.99), LISTED: (7.0, 5.0, 0.95)}


def test_the_replay_is_near_to_the_testbed() -> None:
    fitted, plain = TABLES["muri"].split("Nothing fitted")
    rows = {row["policy"]: row for _, _, row in page_tables.rows(fitted)}
    assert list(rows) == [f"`{label}`" for label in made.MURI]
    for label, (mean, job, near) in FITTED.items():
        assert abs(page_tables.number(rows[label]["difference"])) <= mean
        assert page_tables.number(rows[label]["median job"]) <= job
        assert page_tables.number(rows[label]["correlation"]) >= near
    for _, _, row in page_tables.rows(plain):
        if row["policy"] in FITTED:
            assert abs(page_tables.number(row["difference"])) <= 10.0
            assert page_tables.number(row["median job"]) <= 10.0
