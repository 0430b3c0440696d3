"""Sweeps: many runs over a grid of settings.

A finished run is kept and never done again, whatever ends the sweep:

    sweep("sweep.toml", "swept").kept  # the runs that were there already
"""
