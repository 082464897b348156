"""The gate that every replica operation goes through, and waiting for it to be drained."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.epoch import Epoch
from services.node.data.admission import Admission


class Gate:
    """`watermark` is the epoch that is published in this process."""

    def __init__(self, watermark: Callable[[], Epoch]) -> None:
        self._watermark = watermark
        self._admission = Admission()
        self._released = asyncio.Event()

    @property
    def drained(self) -> Epoch:
        return self._admission.drained(self._watermark())

    @property
    def running(self) -> int:
        return self._admission.running

    def admit(self, epoch: Epoch) -> None:
        """With no pause since the metadata at `epoch` was asked whether it may be."""
        self._admission.admit(epoch)

    def release(self, epoch: Epoch) -> None:
        self._admission.release(epoch)
        self._released.set()

    async def wait_drained(self, epoch: Epoch, timeout_s: float) -> bool:
        """Whether `epoch`, which is published, is drained, now or within the time given."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.drained < epoch:
                    self._released.clear()
                    await self._released.wait()
        except TimeoutError:
            return False
        return True
