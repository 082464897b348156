"""Where a node's files lie, for those who read and write them from outside."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from metadata.sessions import SessionId
from services.http.data_messages import SegmentFile
from services.http.problems import Code, ProblemError
from store.manifest import STAGED, Segment


class DataPaths:
    """`root` is the node's data folder, absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def staging(self, session: SessionId) -> Path:
        return self.root / STAGED / str(session)

    def described(self, segment: Segment) -> SegmentFile:
        return SegmentFile(
            table=segment.table,
            path=str(self.root / segment.path),
            min_token=segment.first,
            max_token=segment.last,
            rows=segment.rows,
            bytes=segment.size_bytes,
            checksum=segment.sha256,
            oldest=segment.oldest,
            newest=segment.newest,
            ranges=segment.ranges,
            footer=segment.footer or "",
        )

    def staged(self, given: str, session: SessionId) -> str:
        """A path below the session's staging folder, relative to the root."""
        path = PurePosixPath(self.relative(given))
        if path.parts[:2] != (STAGED, str(session)) or ".." in path.parts:
            raise ProblemError(
                Code.MALFORMED,
                f"{given[:200]} does not lie in the staging folder of session {session}.",
                field="files",
            )
        return str(path)

    def relative(self, given: str) -> str:
        """As the manifest has it, whatever form it was given in."""
        parts = urlsplit(given)
        plain = unquote(parts.path) if parts.scheme == "file" else given
        path = PurePosixPath(plain)
        if path.is_absolute() and path.is_relative_to(self.root):
            path = path.relative_to(self.root)
        return str(path)
