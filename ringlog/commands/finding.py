"""Which cluster a verb is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ringlog.commands.ending import Exit, end, sentences
from ringlog.commands.options import DEFAULT_STATE_DIR

if TYPE_CHECKING:
    # At run time they come when a verb runs, so that --help stays quick.
    from client.blocking import BlockingClient
    from client.client import Client
    from services.local.state import Listed, StateDir

DEADLINE_S = 10.0
ABSENT_S = 2.0
"""How long to look for a cluster where nobody takes a connection."""


class Found(NamedTuple):
    """Where a cluster answers; `processes` are known where it runs on this machine."""

    urls: list[str]
    token: str | None
    processes: list[Listed]

    def maker(self, *, deadline_s: float = DEADLINE_S) -> Callable[[], Client]:
        from client.client import Client
        from client.patience import Patience

        patience = Patience(deadline_s=deadline_s, absent_s=ABSENT_S)
        return lambda: Client(self.urls, self.token, patience=patience)


def find(state_dir: Path | None, url: str | None, token: str | None = None) -> Found:
    """By --state-dir, else by --url or RINGLOG_URL, else in the usual place."""
    if url is not None and state_dir is None:
        return Found(addresses(url, "--url"), sendable(token or _token_beside()), [])
    from services.local.marked import marked

    state = folder(state_dir or DEFAULT_STATE_DIR)
    kept = state.read_kept()
    processes = state.read_processes()
    # By the processes themselves: the list of a machine that was switched off names dead ones.
    if kept is None or not processes or not marked(state.path):
        raise end(
            f"No cluster runs in {state.path}: start one with `ringlog up`, or name one by --url.",
            Exit.NOT_REACHABLE,
        )
    own = [process.url for process in processes if process.role == "cms"]
    usable = sendable(token or _token_in(state))
    return Found([f"http://127.0.0.1:{kept.port}", *own], usable, processes)


def folder(path: Path) -> StateDir:
    """The state directory of a cluster, which need not be there yet."""
    from services.local.state import state_dir

    if path.exists() and not path.is_dir():
        raise end(f"{path} is a file: --state-dir names a folder.", Exit.WRONG_USE)
    return state_dir(path)


def sendable(token: str | None) -> str | None:
    """A token that can stand in a request."""
    if token is None or (token.isascii() and token.isprintable()):
        return token
    raise end(
        "The token holds characters that no token has: look for a line break, or for quotes that "
        "are not plain.",
        Exit.WRONG_USE,
    )


@contextmanager
def cluster(state_dir: Path | None, url: str | None, token: str | None) -> Iterator[BlockingClient]:
    """A client, with what goes wrong turned into sentences."""
    from client.blocking import BlockingClient

    with sentences(), BlockingClient(find(state_dir, url, token).maker()) as client:
        yield client


def _token_in(state: StateDir) -> str | None:
    return _operating(state.read_tokens())


def _token_beside() -> str | None:
    """From RINGLOG_TOKENS_FILE, which a container of the cluster has; nobody need copy a token."""
    from os import environ

    from services.local.failure import LocalServerError
    from services.local.state import read

    path = environ.get("RINGLOG_TOKENS_FILE")
    try:
        return _operating((read(Path(path), dict[str, str]) if path else None) or {})
    except LocalServerError as error:
        raise end(str(error), Exit.WRONG_USE) from None


def _operating(tokens: dict[str, str]) -> str | None:
    return tokens.get("admin") or tokens.get("operator")


def addresses(text: str, option: str) -> list[str]:
    """One, or several with commas between them."""
    from client.connection import checked

    urls = [item.strip() for item in text.split(",") if item.strip()]
    if not urls:
        raise end(f"{option} is no address: give http://HOST:PORT.", Exit.WRONG_USE)
    try:
        return [checked(url) for url in urls]
    except ValueError as error:
        raise end(f"{option}: {error}", Exit.WRONG_USE) from None
