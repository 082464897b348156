"""Links between documents."""

from __future__ import annotations

import re
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(<?([^()\s>]+(?:\([^()\s]*\))?[^()\s>]*)>?(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def link_faults(document: Path) -> list[str]:
    """Relative links of a document that lead to no file or no heading."""
    prose = _CODE.sub("", _FENCE.sub("", document.read_text(encoding="utf-8")))
    return [
        f"{document.name}: {target} leads nowhere"
        for target in _LINK.findall(prose)
        if not _ELSEWHERE.match(target) and not _resolves(document, target)
    ]


def _resolves(document: Path, target: str) -> bool:
    name, _, heading = target.partition("#")
    path = document.parent / name if name else document
    if not path.exists():
        return False
    return not heading or path.suffix != ".md" or heading in _anchors(path)


def _anchors(document: Path) -> set[str]:
    """The names by which headings are linked to: lower case, words joined by hyphens."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    headings = (heading.replace("`", "").lower() for heading in _HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}
