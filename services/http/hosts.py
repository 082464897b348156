"""Whom a request means by its `Host`: all that tells a person's request from a web page's.

Without tokens whoever reaches a service may do everything, so it listens on loopback only. A page
from elsewhere reaches that too, once the name it came from leads to 127.0.0.1 (DNS rebinding);
but the browser then says that name, which is none of ours.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

LOCALHOST = "localhost"
HOSTS_KEPT = 256


@lru_cache(HOSTS_KEPT)
def is_meant(header: str, advertised: str | None) -> bool:
    """An address, which no name server gives away, or a name that is known to be ours."""
    host = _host(header)
    known = {LOCALHOST} if advertised is None else {LOCALHOST, _host(advertised)}
    return host in known or _is_address(host)


def _host(authority: str) -> str:
    """Without its port; an IPv6 address stands in brackets."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0].lower()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
