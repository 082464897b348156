"""Benchmarks, each a ratio against a peer or a limit of the same run."""
