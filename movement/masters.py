"""Whether a standalone Spark master answers at all, before a minute is spent on finding out."""

from __future__ import annotations

import asyncio

SCHEME = "spark://"
ANSWER_TIMEOUT_S = 5.0
MASTERS_MAX = 8


def addresses(master: str) -> list[tuple[str, int]]:
    """Those of `spark://host:port,host:port`; none for masters of other kinds."""
    if not master.startswith(SCHEME):
        return []
    found = []
    for part in master.removeprefix(SCHEME).split(",")[:MASTERS_MAX]:
        host, _, port = part.strip().rpartition(":")
        if host and port.isdecimal():
            found.append((host.strip("[]"), int(port)))
    return found


async def silence(master: str) -> str | None:
    """Why none of the masters can be talked to, or None if one can, or if we cannot tell."""
    said = None
    for host, port in addresses(master):
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            said = f"{host}:{port} does not answer within {ANSWER_TIMEOUT_S:.0f} s"
        except OSError as error:
            said = f"{host}:{port}: {error.strerror or error}"
        except (ValueError, OverflowError) as error:
            # A name that is none, or a port that is too large.
            said = f"{host}:{port}: {error}"
        else:
            writer.close()
            return None
    return said
