"""One run and several: options, replays, plans, comparisons, a result made again.

Options are checked before any work is done. Equal inputs and options give equal results:

    replay("jobs.parquet", "32x8", policy="sjf").write("result")
"""
