"""Bodies of requests: of the right type, of a bounded size, all of it or a problem."""

from __future__ import annotations

from aiohttp import hdrs, web

from services.http.limits import HttpLimits
from services.http.problems import Code, ProblemError


async def read_json(limits: HttpLimits, request: web.BaseRequest) -> bytes:
    """The body, if it is said to be JSON and is not too large."""
    check_json(request)
    return await read_body(limits, request)


async def read_body(limits: HttpLimits, request: web.BaseRequest) -> bytes:
    body = at_hand(limits, request)
    return await rest_of(limits, request) if body is None else body


def check_json(request: web.BaseRequest) -> None:
    given = request.headers.get(hdrs.CONTENT_TYPE, "")
    if given == "application/json":
        return
    media_type, _, parameters = given.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    plain = media_type.strip().lower() == "application/json"
    if not plain or charset not in ("", "charset=utf-8"):
        raise ProblemError(
            Code.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be application/json in UTF-8, not {given or 'unnamed'}.",
            field="Content-Type",
        )


def at_hand(limits: HttpLimits, request: web.BaseRequest) -> bytes | None:
    """The body if it has come with the headers, as that of a commit has.

    Awaiting what is there already would double the time that a commit spends here.
    """
    length, limit = request.content_length, limits.body_bytes_max
    if length is not None and length > limit:
        raise _too_large(length, limit)
    if not request.content.is_eof():
        return None
    body = request.content.read_nowait()
    if len(body) > limit:
        raise _too_large(len(body), limit)
    return body


async def rest_of(limits: HttpLimits, request: web.BaseRequest) -> bytes:
    """The body of which more is to come; some clients ask first whether they may send it."""
    expected = request.headers.get(hdrs.EXPECT)
    if expected is not None:
        if expected.lower() != "100-continue":
            raise ProblemError(Code.MALFORMED, "Only 100-continue can be expected.", field="Expect")
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What goes before the answer is not part of it.
        request.writer.output_size = 0
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(None, limits.body_bytes_max) from error


def _too_large(length: int | None, limit: int) -> ProblemError:
    found = "The body has" if length is None else f"{length} bytes are"
    return ProblemError(
        Code.TOO_LARGE, f"{found} more than the {limit} bytes allowed.", field="Content-Length"
    )
