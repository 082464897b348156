"""The reference, generated from the source: `python -m tests.reference` writes it anew."""
