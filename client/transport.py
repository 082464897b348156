"""One request to one address over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import aiohttp
import msgspec

ANSWER_BYTES_MAX = 1 << 30
TIMEOUT_MIN_S = 0.001
"""To aiohttp no time at all is all the time there is."""
CONNECT_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 1_000

Query = Mapping[str, str | int]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, of whichever address; a body makes it a POST."""

    path: str
    query: Query = {}
    body: bytes | None = None
    accept: str = "application/json"
    more_headers: Mapping[str, str] = {}

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": self.accept, **self.more_headers}
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        return headers


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`date` is the clock of whoever answered, as HTTP writes it."""

    status: int
    body: bytes
    retry_after_s: float | None
    date: str | None = None
    media_type: str = ""


class LostError(Exception):
    """No answer came. `may_have_arrived` is false only where nothing at all was sent."""

    def __init__(self, message: str, *, may_have_arrived: bool) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class _Way:
    """How far a request came. What is not known to have stayed here was sent."""

    was_sent = True


async def _begin(_session: object, context: SimpleNamespace, _request: object) -> None:
    # Others than `ask` use the session as well, and bring nothing to note it in.
    if isinstance(context.trace_request_ctx, _Way):
        context.trace_request_ctx.was_sent = False


async def _send(_session: object, context: SimpleNamespace, _headers: object) -> None:
    """Called just before the first byte goes out."""
    if isinstance(context.trace_request_ctx, _Way):
        context.trace_request_ctx.was_sent = True


def new_session(token: str | None, cluster: str | None) -> aiohttp.ClientSession:
    """A session that tells `ask` whether a request was sent at all."""
    headers = {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if cluster is not None:
        headers["Ringlog-Cluster"] = cluster
    noting = aiohttp.TraceConfig()
    noting.on_request_start.append(_begin)
    noting.on_request_headers_sent.append(_send)
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
        trace_configs=[noting],
    )


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    request: Request,
    *,
    timeout_s: float,
    bytes_max: int = ANSWER_BYTES_MAX,
) -> Answer:
    """One try. Whatever goes wrong on the way is a `LostError`."""
    timeout_s = max(timeout_s, TIMEOUT_MIN_S)
    way = _Way()
    timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, CONNECT_TIMEOUT_S))
    try:
        async with session.request(
            "GET" if request.body is None else "POST",
            f"{url}{request.path}",
            params=request.query,
            data=request.body,
            headers=request.headers,
            timeout=timeout,
            allow_redirects=False,
            trace_request_ctx=way,
        ) as response:
            return Answer(
                status=response.status,
                body=await _bounded(response, bytes_max),
                retry_after_s=_seconds(response.headers.get("Retry-After")),
                date=response.headers.get("Date"),
                media_type=response.content_type,
            )
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise LostError(f"{url} takes no connection", may_have_arrived=False) from error
    except (aiohttp.InvalidURL, UnicodeError) as error:
        # A name that no resolver takes is noticed late and by another exception.
        raise LostError(f"{url} is no address", may_have_arrived=False) from error
    except TimeoutError as error:
        if not way.was_sent:
            raise LostError(f"{url} takes no connection", may_have_arrived=False) from error
        raise LostError(f"{url} gave no answer in time", may_have_arrived=True) from error
    except aiohttp.ClientError as error:
        raise LostError(f"{url} broke off: {error}", may_have_arrived=True) from error


async def _bounded(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            raise aiohttp.ClientPayloadError(f"more than {bytes_max} bytes")
    return bytes(body)


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; the form with a date is not used by a CMS."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
