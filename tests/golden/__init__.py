"""Golden results: what the engine gave on fixed inputs, so that a change of the engine moves none of them.

inputs: job tables and clusters. cases: the runs of them. digest: what is kept of a run.
make: writes small.tsv and large.tsv, the kept results, by hand.
"""
