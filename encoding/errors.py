"""The one thing that goes wrong where bytes become values."""

from __future__ import annotations

MESSAGE_MAX = 500


class DecodeError(ValueError):
    """These bytes are not what they were taken for. The message is one sentence for people."""

    def __init__(self, message: str) -> None:
        # Complaints quote what they complain of, which may be long.
        short = message if len(message) <= MESSAGE_MAX else f"{message[: MESSAGE_MAX - 2]}…."
        super().__init__(short)
