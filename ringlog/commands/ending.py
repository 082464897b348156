"""How a verb ends: what it prints last, and its exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import IntEnum

import typer

from ringlog.commands.saying import say, tame


class Exit(IntEnum):
    """Part of the command's promise. Not reachable is also who may have been, and did not say."""

    DONE = 0
    REFUSED = 1
    WRONG_USE = 2
    NOT_REACHABLE = 3
    INTERRUPTED = 130


_MISUSES = frozenset({400, 404, 405, 413, 414, 415, 421, 422})


def end(sentence: str, code: Exit) -> typer.Exit:
    """Say one sentence on the error stream; raise what this returns."""
    for line in sentence.split("\n"):
        say(line, err=True, fg=typer.colors.RED if code else None)
    return typer.Exit(code)


def confirm(question: str) -> None:
    """Go on only if the answer is yes. Without a terminal there is nobody to ask."""
    if sys.stdin.isatty() and not typer.confirm(tame(question), err=True):
        raise end("Nothing was changed.", Exit.REFUSED)


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Turn what may go wrong outside into a sentence and an exit code."""
    from client.errors import ClientError, OutcomeUnknownError, RequestError, UnreachableError
    from services.local.failure import LocalServerError

    try:
        yield
    except OutcomeUnknownError as error:
        raise end(str(error), Exit.NOT_REACHABLE) from None
    except UnreachableError as error:
        raise end(
            f"{error} Start a cluster with `ringlog up`, or name one by --url or --state-dir.",
            Exit.NOT_REACHABLE,
        ) from None
    except RequestError as error:
        misused = error.problem.status in _MISUSES
        raise end(_capital(str(error)), Exit.WRONG_USE if misused else Exit.REFUSED) from None
    except (ClientError, LocalServerError) as error:
        raise end(str(error), Exit.REFUSED) from None
    except UnicodeEncodeError:
        # The shell passes on any bytes, and they come as marks that no encoding has.
        raise end("What was given is not all text: write it in UTF-8.", Exit.WRONG_USE) from None
    except KeyboardInterrupt:
        raise end("Interrupted.", Exit.INTERRUPTED) from None


@contextlib.contextmanager
def endless() -> Iterator[None]:
    """Around what goes on until Ctrl-C, which is its end then and no failure."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(Exit.DONE) from None


@contextlib.contextmanager
def undoubted(what: str, remedy: str) -> Iterator[None]:
    """Around what cannot be taken back: where it may have been done, that is said, and what to do.

    Either somebody breaks it off, or whoever was asked does not say what came of it.
    """
    from client.errors import OutcomeUnknownError

    try:
        yield
    except OutcomeUnknownError as error:
        raise end(
            f"It is not known whether {what}: {error.complaint}. {remedy}", Exit.NOT_REACHABLE
        ) from None
    except KeyboardInterrupt:
        raise end(
            f"Interrupted: it is not known whether {what}. {remedy}", Exit.INTERRUPTED
        ) from None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
