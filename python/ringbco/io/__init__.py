"""Files and the system: nothing here knows what a job or a cluster is.

What is written is there whole, or it is not there:

    with replacing(Path("jobs.csv"), force=False) as file:
        file.write(data)  # after an error or an interrupt no jobs.csv is left
"""
