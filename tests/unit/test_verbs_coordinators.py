"""Rows are asked of the first node that can be reached, also where they are written."""

import pytest

from ringlog.commands.naming import Member
from ringlog.commands.node_asking import NotReachedError, asked
from tests.scripted import scripted


def member(address):
    return Member(
        id=1, host_id="", addresses={"http": address}, datacenter="", rack="", state="joined"
    )


# A name that nobody has, by RFC 2606, and a port at which nobody listens.
AWAY = [member("nobody.invalid:80"), member("127.0.0.1:1")]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_where_no_connection_was_made_nothing_is_in_doubt_and_another_node_is_asked(method):
    with scripted() as server:
        server.answers[f"{method} /x"] = lambda _: {"epoch": 7}
        status, answer = asked([*AWAY, member(server.authority)], method, "/x", None, token=None)

    assert (status, answer) == (200, {"epoch": 7})
    with pytest.raises(NotReachedError, match="takes no connection at"):
        asked(AWAY, method, "/x", None, token=None)
