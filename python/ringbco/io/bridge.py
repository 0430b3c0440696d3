"""polars' way to numpy, opened while this module is imported.

polars looks for numpy's functions when the first column crosses over, and a signal then makes it panic.
Signals wait until an import is done (`ringbco.shell`), so it looks here.
"""

import polars as pl

pl.Series([0.0]).to_numpy()
