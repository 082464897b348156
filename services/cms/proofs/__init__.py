"""Proofs about the log over HTTP: that an entry is in it, and that it only ever grew."""
