"""Built-in policies that are written in Python, on the interface that docs/custom-policies.md describes."""
