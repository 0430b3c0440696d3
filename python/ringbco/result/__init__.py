"""Results: their tables, figures and folders.

Nothing here replays, and nothing draws (`ringbco/__init__.py` names who does). Equal outcomes are written as
equal bytes:

    Outcome.read("result").write("copy")  # the same Parquet files
"""
