"""Ports on this machine, kept from others for as long as a supervisor runs."""

from __future__ import annotations

import socket
from collections.abc import Collection
from types import TracebackType
from typing import Self

from services.local.failure import LocalServerError

ADDRESS = "127.0.0.1"
ANY = 0
ATTEMPTS_MAX = 100


class HeldPorts:
    """Sockets that are bound and do not listen.

    A server that allows the address to be used again gets the port; nobody is given it by chance
    while that server is down, so whoever is restarted keeps its address.
    """

    def __init__(self) -> None:
        self._holders: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for holder in self._holders:
            holder.close()

    def hold(self, port: int = ANY) -> int:
        """A port for one process."""
        try:
            return self._bind(port, socket.SO_REUSEADDR)
        except OSError:
            # It was ours before and somebody took it while nothing ran.
            return self._bind(ANY, socket.SO_REUSEADDR)

    def hold_new(self, avoided: Collection[int]) -> int:
        """A port that is none of these."""
        for _ in range(ATTEMPTS_MAX):
            port = self.hold()
            if port not in avoided:
                return port
        raise LocalServerError("No port is free for another process: stop some others.")

    def hold_shared(self, port: int) -> int:
        """A port that several processes listen on together.

        Whoever shares ports would let us in, and connections would go to either at random; so
        ask first for the port alone.
        """
        try:
            with socket.socket() as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind((ADDRESS, port))
                port = alone.getsockname()[1]
            return self._bind(port, socket.SO_REUSEADDR, socket.SO_REUSEPORT)
        except OSError as error:
            raise LocalServerError(
                f"Port {port} cannot be used ({error.strerror}): choose another with --port."
            ) from error

    def _bind(self, port: int, *options: int) -> int:
        holder = socket.socket()
        try:
            for option in options:
                holder.setsockopt(socket.SOL_SOCKET, option, 1)
            holder.bind((ADDRESS, port))
        except OSError:
            holder.close()
            raise
        self._holders.append(holder)
        bound: int = holder.getsockname()[1]
        return bound
