"""Times, durations and limits as Slurm writes them."""

from __future__ import annotations

from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from ringbco.errors import InputError, UsageError
from ringbco.io.times import MICRO, divided, lengths, moments

TIMES: Final = ("submit", "eligible", "start", "end")
NO_TIME: Final = ("unknown", "none", "n/a", "invalid", "0")
NO_LIMIT: Final = (
    "unlimited",
    "partition_limit",
    "infinite",
    "4294967295",
    "none",
    "n/a",
    "invalid",
    "unknown",
)
_ISO: Final = "%Y-%m-%dT%H:%M:%S"
_HOUR: Final = 3_600


def instants(text: pl.Series) -> pl.DataFrame:
    """Texts as seconds since 1970 (`time`, null where there is none), and which are UTC (`utc`)."""
    time = text.str.to_datetime(_ISO, time_unit="ms", strict=False, cache=False).dt.epoch("s")
    time = time.cast(pl.Float64)
    utc = pl.repeat(False, text.len(), dtype=pl.Boolean, eager=True)
    rest = (text.is_not_null() & time.is_null()).arg_true()
    if rest.len():
        cells = text[rest]
        unix = cells.cast(pl.Float64, strict=False)
        unix = pl.select(pl.when((unix > 0) & unix.is_finite()).then(unix)).to_series()
        micros, zoned = moments(cells)
        time = time.scatter(rest, pl.select(pl.coalesce(unix, divided(micros, MICRO))).to_series())
        utc = utc.scatter(rest, zoned | unix.is_not_null())
    return pl.DataFrame({"time": time, "utc": utc})


def with_times(frame: pl.DataFrame, zone: str | None, shown: str) -> tuple[pl.DataFrame, bool]:
    """The frame with `TIMES` as seconds since 1970 (`submit_s` and so on), and whether they are UTC.

    zone: where times without an offset are from; without it they are wall clocks. Raises InputError for a log
    with both kinds and no zone.
    """
    read = {name: instants(frame[name]) for name in TIMES}
    utc = {name: each["utc"] for name, each in read.items()}
    walls = {name: each["time"].is_not_null() & ~each["utc"] for name, each in read.items()}
    frame = frame.with_columns(each["time"].alias(f"{name}_s") for name, each in read.items())
    some_utc = any(each.any() for each in utc.values())
    some_wall = any(each.any() for each in walls.values())
    if zone is not None:
        if some_wall:
            frame = _in_zone(frame, _known(zone), walls)
        return frame, True
    if some_utc and some_wall:
        raise InputError(
            "times that all have an offset (or are Unix seconds), or none of them",
            file=shown,
            hint="--timezone ZONE says what the others are",
        )
    return frame, some_utc


def _known(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"--timezone {zone}: no such zone; write one such as Europe/Berlin") from None
    return zone


def _readings(column: str, zone: str) -> tuple[pl.Expr, pl.Expr]:
    """The earliest and the latest instant (seconds, UTC) at which a wall clock shows a time."""
    clock = (pl.col(f"{column}_s") * 1_000).cast(pl.Int64).cast(pl.Datetime("ms"))

    def at(time: pl.Expr, choice: str) -> pl.Expr:
        local = time.dt.replace_time_zone(zone, ambiguous=choice, non_existent="null")  # type: ignore[arg-type]
        return local.dt.epoch("ms")

    # A time that a change of clocks leaves out is an hour after one that it does not.
    shifted = at(clock.dt.offset_by("-1h"), "latest") + _HOUR * 1_000
    early, late = (pl.coalesce(at(clock, choice), shifted) / 1_000 for choice in ("earliest", "latest"))
    return early, late


def _in_zone(frame: pl.DataFrame, zone: str, walls: dict[str, pl.Series]) -> pl.DataFrame:
    marked = frame.with_columns(wall.alias(f"{name}_wall") for name, wall in walls.items())
    both = {}
    for name in TIMES:
        early, late = _readings(name, zone)
        both[f"{name}_early"] = pl.when(f"{name}_wall").then(early).otherwise(f"{name}_s")
        both[f"{name}_late"] = pl.when(f"{name}_wall").then(late).otherwise(f"{name}_s")
    read = marked.with_columns(**both, elapsed_s=elapsed(frame))
    sought = pl.coalesce("elapsed_s", pl.col("end_s") - pl.col("start_s"))
    pairs = [(start, end) for start in ("early", "late") for end in ("early", "late")]
    off = [(pl.col(f"end_{end}") - pl.col(f"start_{start}") - sought).abs() for start, end in pairs]
    least = pl.min_horizontal(off)
    start, end = pl.col("start_early"), pl.col("end_early")
    for (start_is, end_is), away in reversed(list(zip(pairs, off, strict=True))):
        start = pl.when(away == least).then(f"start_{start_is}").otherwise(start)
        end = pl.when(away == least).then(f"end_{end_is}").otherwise(end)
    read = read.with_columns(start_s=start, end_s=end)
    for name in ("submit", "eligible"):
        late = pl.col(f"{name}_late")
        read = read.with_columns(
            pl.when(late <= pl.col("start_s").fill_null(float("inf")))
            .then(late)
            .otherwise(f"{name}_early")
            .alias(f"{name}_s")
        )
    return read.select(*frame.columns)


def elapsed(frame: pl.DataFrame) -> pl.Series:
    """ElapsedRaw in seconds, else Elapsed; null where neither can be read."""
    raw = frame["elapsedraw"].cast(pl.Float64, strict=False)
    raw = pl.select(pl.when((raw >= 0) & raw.is_finite()).then(raw)).to_series()
    return _where_null(raw, frame["elapsed"])


def suspended(frame: pl.DataFrame) -> pl.Series:
    """Suspended in seconds; null where it cannot be read."""
    return lengths(frame["suspended"], "s", thousands=False).rename("suspended_s")


def _where_null(known: pl.Series, text: pl.Series) -> pl.Series:
    rest = (known.is_null() & text.is_not_null()).arg_true()
    if not rest.len():
        return known
    return known.scatter(rest, lengths(text[rest], "s", thousands=False))


def limits(frame: pl.DataFrame) -> pl.Series:
    """Timelimit in seconds, else TimelimitRaw (minutes); null for none and for what cannot be read."""
    minutes = frame["timelimitraw"]
    minutes = pl.select(pl.when(~minutes.str.to_lowercase().is_in(NO_LIMIT)).then(minutes)).to_series()
    text = frame["timelimit"]
    text = pl.select(pl.when(~text.str.to_lowercase().is_in(NO_LIMIT)).then(text)).to_series()
    raw = minutes.cast(pl.Float64, strict=False) * 60
    made = pl.select(pl.coalesce(lengths(text, "min", thousands=False), raw).alias("limit")).to_series()
    return pl.select(pl.when((made > 0) & made.is_finite()).then(made).alias("time_limit")).to_series()


def moment(text: str, option: str, zone: str | None, *, utc: bool) -> float:
    """A time of --from or --until in seconds since 1970, on the clock of the log."""
    read = instants(pl.Series([text.strip()], dtype=pl.String))
    time, zoned = read.row(0)
    if time is None:
        raise UsageError(f"{option} {text}: expected a date such as 2026-05-01 or 2026-05-01T08:00:00")
    if zoned and not utc:
        raise UsageError(f"{option} {text}: the log's times have no offset, so give none, or --timezone")
    if zoned or zone is None:
        return float(time)
    early, _ = _readings("at", _known(zone))
    return float(pl.DataFrame({"at_s": [time]}).select(early).item())
