"""Only the CMS that sequences publishes."""

import asyncio

import pytest

from metadata.epoch import EMPTY
from services.cms.relaying import WhileSequencing

ENTRIES = ["whatever the log has"]


class Log:
    async def read_after(self, epoch, *, entries_max, bytes_max):
        assert (epoch, entries_max, bytes_max) == (EMPTY, 10, 1_000)
        return ENTRIES


@pytest.mark.parametrize(("is_sequencing", "found"), [(True, ENTRIES), (False, ())])
def test_the_outbox_is_empty_for_the_others(is_sequencing, found):
    outbox = WhileSequencing(Log(), lambda: is_sequencing)

    page = asyncio.run(outbox.read_after(EMPTY, entries_max=10, bytes_max=1_000))

    assert page == found
