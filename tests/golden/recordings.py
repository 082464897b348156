"""Files of recorded logs: an entry a line, as JSON for the eye with its bytes beside it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from uuid import UUID

from encoding.entries import EntryId
from encoding.images import encode_image
from encoding.json import entry_json
from log.entry import SealedEntry
from metadata.epoch import Epoch
from tests.golden.scribe import Scribe

FOLDER = Path(__file__).parent
VERSIONS = sorted(path.name for path in FOLDER.glob("v*"))


def record(scribe: Scribe, version: str) -> None:
    folder = FOLDER / version
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(as_line(sealed), ensure_ascii=False) for sealed in scribe.entries]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "image.bin").write_bytes(encode_image(scribe.metadata))


def as_line(sealed: SealedEntry) -> dict:
    return {**sealed_json(sealed), "payload": b64encode(sealed.payload).decode()}


def sealed_json(sealed: SealedEntry) -> dict:
    return entry_json(sealed.entry, previous_hash=sealed.previous_hash, entry_hash=sealed.hash)


def read_lines(version: str) -> list[dict]:
    text = (FOLDER / version / "log.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def read_log(version: str) -> list[SealedEntry]:
    return [
        SealedEntry(
            epoch=Epoch(line["epoch"]),
            entry_id=EntryId(UUID(line["entry_id"])),
            kind=line["kind"],
            payload=b64decode(line["payload"]),
            previous_hash=bytes.fromhex(line["previous_hash"]),
            hash=bytes.fromhex(line["hash"]),
        )
        for line in read_lines(version)
    ]


def read_image(version: str) -> bytes:
    return (FOLDER / version / "image.bin").read_bytes()
