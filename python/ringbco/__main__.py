"""`python -m ringbco`: the command line."""

from ringbco.cli import main

main()
