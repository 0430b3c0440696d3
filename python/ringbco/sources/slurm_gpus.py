"""What jobs of Slurm held and asked for: GPUs, their types, parts of GPUs.

Few strings of resources repeat often in a log, so each is read once.
"""

from __future__ import annotations

from typing import Final

import polars as pl

MIG: Final = r"(?i)(?:^|[_.\-])\d+g\.\d+gb"
"""What is in a type that names a MIG profile, such as 1g.10gb or a100_3g.20gb."""
COUNTS: Final = ("gpu", "cpu", "node")
_GRES: Final = r"^(?:gres[:/])?(gpu|shard|mps)"


def with_gpus(frame: pl.DataFrame, *, count: str, mig: str, asked: bool) -> pl.DataFrame:
    """The frame with num_gpus, recorded_on, gpu_type, and what notes and rules have to know.

    asked: whether the log has ReqTRES. Added too: parts (GPUs of MIG profiles), shared (gres/shard or mps),
    several_types, req_gpus (null where ReqTRES is empty).
    """
    held = _read(frame["alloctres"], mig)
    older = _read(frame["allocgres"], mig, gres=True)
    wanted = _read(frame["reqtres"], mig)
    frame = (
        frame.join(held, left_on="alloctres", right_on="key", how="left", maintain_order="left")
        .join(older, left_on="allocgres", right_on="key", how="left", maintain_order="left", suffix="_older")
        .join(wanted, left_on="reqtres", right_on="key", how="left", maintain_order="left", suffix="_req")
    )
    told = pl.col("gpus").is_not_null()
    one_type = pl.when(pl.col("num_types") == 1).then("types")
    one_older = pl.when(pl.col("num_types_older") == 1).then("types_older")
    none_held = pl.col("num_types").fill_null(0) == 0
    frame = frame.with_columns(
        num_gpus=pl.coalesce("gpus", "gpus_older") if count == "gpu" else pl.col(count),
        recorded_on=pl.when(none_held).then(one_older).otherwise(one_type),
        several_types=pl.when(none_held).then("num_types_older").otherwise("num_types").fill_null(0) > 1,
        parts=pl.when(told).then("mig").otherwise("mig_older").fill_null(0),
        shared=pl.col("shares").fill_null(False) | pl.col("shares_older").fill_null(False),
        req_gpus=pl.when(pl.col("reqtres").is_not_null()).then(pl.col("gpus_req").fill_null(0)),
        types_req=pl.when(pl.col("num_types_req") > 0).then("types_req"),
    )
    if count != "gpu":
        none = pl.lit(None, pl.String)
        frame = frame.with_columns(
            recorded_on=none,
            types_req=none,
            several_types=pl.lit(value=False),
            parts=pl.lit(0, pl.Int64),
            req_gpus=pl.lit(None, pl.Int64),
        )
    made = [column for column in (*held.columns, *older.columns) if column != "key"]
    return frame.with_columns(gpu_type=pl.col("types_req") if asked else pl.col("recorded_on")).drop(
        *made, *(f"{column}_older" for column in made), *(f"{column}_req" for column in made), strict=False
    )


def _read(texts: pl.Series, mig: str, *, gres: bool = False) -> pl.DataFrame:
    """One row per text: GPUs (null where it names none), MIG parts, types, shares, processors, nodes.

    gres: whether the texts are of AllocGRES, such as gpu:a100:4(S:0-1).
    """
    items = (
        texts.rename("key")
        .drop_nulls()
        .unique()
        .to_frame()
        .with_columns(item=pl.col("key").str.replace_all(r"\([^)]*\)", "").str.split(","))
        .explode("item")
    )
    item = pl.col("item").str.strip_chars()
    if gres:
        bare = item.str.replace(_GRES + "$", "gres/${1}=1")
        untyped = bare.str.replace(_GRES + r"[:=](\d+)$", "gres/${1}=${2}")
        item = untyped.str.replace(_GRES + r":(.+)[:=](\d+)$", "gres/${1}:${2}=${3}")
    pair = item.str.splitn("=", 2)
    name, value = (pair.struct.field(f"field_{i}") for i in (0, 1))
    items = items.select("key", name=name, value=value.cast(pl.Int64, strict=False)).with_columns(
        type=pl.when(pl.col("name").str.starts_with("gres/gpu:")).then(pl.col("name").str.slice(9))
    )
    typed, count = pl.col("type").is_not_null() & pl.col("value").is_not_null(), pl.col("value")
    profile = typed & pl.col("type").str.contains(MIG)
    whole = typed & ~profile if mig == "drop" else typed
    total = count.filter(pl.col("name") == "gres/gpu").first()
    shares = pl.col("name").str.contains(r"^gres/(?:shard|mps)(?::|$)") & (count > 0)
    counted = pl.col("type").filter(whole & (count > 0))
    return (
        items.group_by("key")
        .agg(
            total=total,
            typed=count.filter(whole).sum(),
            any_typed=typed.any(),
            mig=count.filter(profile).sum(),
            types=counted.unique(maintain_order=True).str.join("|"),
            num_types=counted.n_unique(),
            shares=shares.any(),
            cpu=count.filter(pl.col("name") == "cpu").first(),
            node=count.filter(pl.col("name") == "node").first(),
        )
        .with_columns(
            gpus=pl.when(pl.col("total").is_not_null())
            .then((pl.col("total") - (pl.col("mig") if mig == "drop" else 0)).clip(lower_bound=0))
            .when("any_typed")
            .then("typed")
        )
        .drop("total", "typed", "any_typed")
    )
