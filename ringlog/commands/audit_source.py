"""Which history an audit is about: archives, or the log of a running cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.finding import DEADLINE_S, find

if TYPE_CHECKING:
    # At run time they come when a verb runs, so that --help stays quick.
    from audit.history import History
    from audit.reading import Archive
    from metadata.epoch import Epoch
    from ringlog.live_proofs import LiveProofs

ArchiveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--archive",
        help="A folder that `ringlog audit export` wrote, or its address; several make one "
        "history. Without it the cluster is asked.",
        show_default=False,
    ),
]
AfterOption = Annotated[
    int | None,
    typer.Option(
        "--after",
        min=0,
        help="Begin behind this epoch; at the first by default.",
        show_default=False,
    ),
]
UpToOption = Annotated[
    int | None,
    typer.Option(
        "--up-to", min=0, help="End with this epoch; the last by default.", show_default=False
    ),
]


@contextmanager
def history(
    archive: list[str] | None, state_dir: Path | None, url: str | None, token: str | None
) -> Iterator[History]:
    """The history to look at, with what goes wrong turned into sentences."""
    with sentences(), audit_sentences():
        if archive:
            yield archived(archive)
            return
        from client.connection import Connection
        from client.patience import Patience
        from ringlog.live_history import live_history

        found = find(state_dir, url, token)
        patience = Patience(deadline_s=DEADLINE_S)
        with live_history(
            lambda: Connection(found.urls, token=found.token, cluster=None, patience=patience)
        ) as live:
            yield live


@contextmanager
def proofs_of(state_dir: Path | None, url: str | None, token: str | None) -> Iterator[LiveProofs]:
    """Checkpoints and proofs of a running cluster."""
    from client.connection import Connection
    from client.patience import Patience
    from ringlog.live_proofs import live_proofs

    found = find(state_dir, url, token)
    patience = Patience(deadline_s=DEADLINE_S)
    with live_proofs(
        lambda: Connection(found.urls, token=found.token, cluster=None, patience=patience)
    ) as proofs:
        yield proofs


def archived(places: list[str]) -> History:
    from audit.reading import join

    archives = [opened(place) for place in places]
    return archives[0] if len(archives) == 1 else join(archives)


def opened(place: str) -> Archive:
    from audit.reading import open_archive

    return open_archive(place)


def epoch_or_tip(found: History, at: int | None) -> Epoch:
    from audit.history import check_epoch
    from metadata.epoch import Epoch

    if at is None:
        return found.tip.epoch
    check_epoch(found, at)
    return Epoch(at)


def epoch_or_start(found: History, after: int | None) -> Epoch:
    """Where the history begins: a later archive begins behind those before it."""
    from log.chain import NO_ENTRIES
    from metadata.epoch import Epoch

    return getattr(found, "after", NO_ENTRIES).epoch if after is None else Epoch(after)


@contextmanager
def audit_sentences() -> Iterator[None]:
    """Turn what may be wrong with a history, or a question about it, into a sentence."""
    from audit.bundle import BundleError
    from audit.errors import ArchiveError, NotInARowError, NotThereError
    from audit.grammar import ExpressionError
    from audit.history import UnknownEpochError
    from audit.importing import ImportRefusedError
    from audit.keys import KeyFormatError
    from audit.notes import NoteError
    from audit.proposals import ProposalsError
    from audit.travel import UnknownSubjectError
    from audit.witnessing import WitnessError
    from encoding.key_texts import KeyTextError
    from log.replay import ReplayError
    from log.store import StoreUnavailableError, TrimmedError
    from log.trimming import TrimRefusedError
    from migrations.failure import MigrationError

    try:
        yield
    except NotThereError as error:
        raise end(
            f"{error} Name a folder that `ringlog audit export` wrote.", Exit.WRONG_USE
        ) from None
    except NotInARowError as error:
        raise end(str(error), Exit.WRONG_USE) from None
    except ArchiveError as error:
        raise end(str(error), Exit.REFUSED) from None
    except ReplayError as error:
        raise end(
            f"The history does not hold, {_bare(error)}. `ringlog audit replay` tells more.",
            Exit.REFUSED,
        ) from None
    except StoreUnavailableError as error:
        raise end(f"The Postgres cannot be used: {_bare(error)}.", Exit.NOT_REACHABLE) from None
    except (
        BundleError,
        ImportRefusedError,
        MigrationError,
        NoteError,
        TrimmedError,
        TrimRefusedError,
        WitnessError,
    ) as error:
        raise end(str(error), Exit.REFUSED) from None
    except (
        KeyFormatError,
        ExpressionError,
        KeyTextError,
        ProposalsError,
        UnknownEpochError,
        UnknownSubjectError,
    ) as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _bare(error: Exception) -> str:
    """For the middle of a sentence."""
    return str(error).rstrip(".")
