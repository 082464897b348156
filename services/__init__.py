"""The processes, one sub-package each."""
