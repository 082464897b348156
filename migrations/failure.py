"""What stops a migration."""

from __future__ import annotations


class MigrationError(Exception):
    """The database stays as it was; the text is a sentence for the operator."""
