"""Write a new version of each schema whose type has changed: `python -m encoding.schemas`.

Commit what it writes. A version that any log may hold is never edited or removed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from encoding.derivation import schema_names, schema_of
from encoding.registry import Document, fingerprint_of
from encoding.schemas.released import RELEASED

Versions = tuple[str, ...]
"""The fingerprints of one schema's versions, oldest first."""

_HEAD = '''"""Fingerprints of all schemas, one per version: what was released stays as it is."""

from __future__ import annotations

RELEASED: dict[str, tuple[str, ...]] = {
'''


def main(folder: Path) -> None:
    today = {name: schema_of(name) for name in schema_names()}
    known = write_versions(folder, RELEASED, today)
    (folder / "released.py").write_text(released_source(known))


def write_versions(
    folder: Path, known: Mapping[str, Versions], today: Mapping[str, Document]
) -> dict[str, Versions]:
    """Add a file for each schema that is like none of its versions; return all versions."""
    updated = dict(known)
    for name, document in today.items():
        updated[name] = _with_version(known.get(name, ()), fingerprint_of(document).hex())
        # Documentation and defaults are no part of the fingerprint. Where nothing else differs
        # the newest file is written again: no two versions may have the same fingerprint.
        _write(folder / f"{name}.{len(updated[name])}.avsc", document)
    return updated


def released_source(known: Mapping[str, Versions]) -> str:
    lines = [f"    {_quoted(name)}: ({_listed(known[name])}),\n" for name in sorted(known)]
    return f"{_HEAD}{''.join(lines)}}}\n"


def _with_version(versions: Versions, fingerprint: str) -> Versions:
    if fingerprint in versions[:-1]:
        raise SystemExit("A type is as it was before its newest version; undo or rename a field.")
    return versions if fingerprint in versions else (*versions, fingerprint)


def _write(path: Path, document: Document) -> None:
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)
        sys.stdout.write(f"wrote {path.name}\n")


def _listed(versions: Versions) -> str:
    quoted = [_quoted(version) for version in versions]
    return ", ".join(quoted) if len(quoted) > 1 else f"{quoted[0]},"


def _quoted(text: str) -> str:
    return f'"{text}"'


if __name__ == "__main__":  # pragma: no cover - it would write into the source tree
    main(Path(__file__).parent)
