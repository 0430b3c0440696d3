"""`python -m ringbco`: the command line."""

import os
import sys

# `python -m` imports from the working directory first, `ringbco` does not: a folder may be anybody's.
if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]

from ringbco.shell import main

main()
