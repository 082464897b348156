"""What goes wrong with archives.

ArchiveError          something in an archive is not as it must be; names the file or epoch
  NotThereError       a file is missing
  NotInARowError      archives of one history that overlap, or leave epochs out between them
  OtherHistoryError   two that should be one history have gone different ways
"""

from __future__ import annotations

from metadata.epoch import Epoch


class ArchiveError(Exception):
    """`where` is a file of the archive; `epoch` is the first one in doubt, where that is known."""

    def __init__(self, where: str, fault: str, *, epoch: Epoch | None = None) -> None:
        place = where if epoch is None else f"{where}, epoch {epoch}"
        fault = fault.rstrip(".")
        super().__init__(f"{place}: {fault}.")
        self.where = where
        self.fault = fault
        self.epoch = epoch


class NotThereError(ArchiveError):
    def __init__(self, where: str) -> None:
        super().__init__(where, "it is missing")


class NotInARowError(ArchiveError):
    """Nothing is wrong with any of them, but they were not chosen so that they follow."""


class OtherHistoryError(ArchiveError):
    """The source and the archive have gone different ways, at this epoch or before."""

    def __init__(self, where: str, epoch: Epoch) -> None:
        super().__init__(
            where,
            "it holds another history than the log, from this epoch or an earlier one on: "
            "export to another folder, and find out which of the two was changed",
            epoch=epoch,
        )
