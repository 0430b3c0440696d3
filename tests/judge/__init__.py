"""What policies would have decided, by rules from the pages of docs/ alone, in plain Python.

Of ringbco it takes nothing but `io` and `errors`. It believes a run's inputs and its book: when each stay
began and ended, where, and why.
"""
