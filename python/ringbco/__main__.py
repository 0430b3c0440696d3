"""`python -m ringbco`: the command line."""

from ringbco.shell import main

main()
