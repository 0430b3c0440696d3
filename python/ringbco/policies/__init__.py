"""Built-in policies that are written in Python, on the interface that docs/own-policies.md describes."""
