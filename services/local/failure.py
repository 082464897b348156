"""What stops a server of the local cluster from starting or stopping."""

from __future__ import annotations


class LocalServerError(Exception):
    """A server could not be started or stopped; the text is a sentence for the operator."""
