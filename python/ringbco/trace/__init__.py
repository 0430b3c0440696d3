"""Job tables: their columns, and how they are read, checked, filled in and made up.

A table is checked once, when it is read; all that is built on it relies on that. Rows keep their order:

    read_jobs("jobs.csv").frame["job_id"]  # as the file has them
"""
