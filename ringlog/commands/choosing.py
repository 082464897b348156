"""The tokens of a node: those that were given, or a good choice."""

from __future__ import annotations

from client.choosing import COUNT_MAX

LEAST, MOST = -(2**63), 2**63 - 1


class TokensError(ValueError):
    """The text is a sentence."""


def parsed(text: str | None) -> int | list[str] | None:
    """How many tokens, or which. One alone is written with a comma behind it: `7,`."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    try:
        numbers = [int(part) for part in parts if part]
    except ValueError:
        raise TokensError(f"{text!r} is neither a number of tokens nor a list of them.") from None
    if len(parts) == 1 and numbers and numbers[0] >= 0:
        if not 1 <= numbers[0] <= COUNT_MAX:
            raise TokensError(
                f"A node has 1 to {COUNT_MAX} tokens, not {text}; a token alone is written {text},"
            )
        return numbers[0]
    if not numbers or not all(LEAST <= number <= MOST for number in numbers):
        raise TokensError("A token is a whole number of 64 bits.")
    return [str(number) for number in numbers]
