"""Studies: what is in a trace, what published clusters look like, this machine's speed, the paper's figures.

They read tables and results, and leave both as they are:

    inspect("jobs.parquet", "32x8")["jobs"]
"""
