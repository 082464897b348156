"""Only the CMS that sequences publishes, and it publishes what it has at hand."""

import asyncio

import pytest

from log.store import StoreUnavailableError, TrimmedError
from metadata.epoch import EMPTY, Epoch
from services.cms.relaying import WhileSequencing

KEPT = ["whatever the log has"]
RECENT = ["what is in memory"]


class Log:
    async def read_after(self, epoch, *, entries_max, bytes_max):
        assert (epoch, entries_max, bytes_max) == (EMPTY, 10, 1_000)
        return KEPT


def read(*, recent=None, is_sequencing=True):
    def recent_after(epoch, *, entries_max, bytes_max):
        assert (epoch, entries_max, bytes_max) == (EMPTY, 10, 1_000)
        return recent

    outbox = WhileSequencing(Log(), recent_after, lambda: is_sequencing)
    return asyncio.run(outbox.read_after(EMPTY, entries_max=10, bytes_max=1_000))


@pytest.mark.parametrize("recent", [None, [], RECENT])
def test_the_outbox_is_empty_for_the_others(recent):
    assert read(recent=recent, is_sequencing=False) == ()


def test_what_is_in_memory_is_not_read_again():
    assert read(recent=RECENT) == RECENT


@pytest.mark.parametrize("recent", [None, []])
def test_what_is_not_in_memory_or_not_yet_is_read_from_the_log(recent):
    assert read(recent=recent) == KEPT


class Trimming:
    """A log that is trimmed again whenever somebody has heard of its seam."""

    async def read_after(self, epoch, *, entries_max, bytes_max):
        raise TrimmedError(Epoch(epoch + entries_max), f"archive up to {bytes_max}")


def test_a_log_that_is_trimmed_meanwhile_is_looked_at_again():
    """Which a relay takes for a delay; anything else would end the process."""
    outbox = WhileSequencing(Trimming(), lambda *_, **__: None, lambda: True)
    with pytest.raises(StoreUnavailableError, match="Entries up to epoch 20"):
        asyncio.run(outbox.read_after(EMPTY, entries_max=10, bytes_max=1_000))
