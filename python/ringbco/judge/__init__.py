"""Where placements put jobs, for `why` alone."""
