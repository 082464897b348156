"""A report as one HTML file that needs nothing else: no script, no font, no other host."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from audit.pictures import Axis
from audit.report import AuditReport, Trust
from audit.report_sections import (
    facts_section,
    findings_section,
    kinds_section,
    people_section,
    placement_section,
    proofs_section,
    sequences_section,
)
from audit.report_style import style_sheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_MARKS = {
    Trust.TAMPERED: "✗ Tampered or damaged",
    Trust.BROKEN: "✗ Does not hold",
    Trust.MISUSED: "✗ Not in a row",
    Trust.UNRECOMPUTED: "○ Not recomputed",
    Trust.UNANCHORED: "○ Consistent, not anchored",
    Trust.ANCHORED: "✓ Verified and anchored",
}


def html_of(report: AuditReport) -> str:
    """Everything that came from a history is escaped: whoever wrote it may not be a friend."""
    name = report.contents.name if report.contents is not None else ""
    title = f"Audit of {name or 'a history'}"
    body = "\n".join([*_header(report, title), *_verdict(report), *_sections(report)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}: {_MARKS[report.trust]}</title>\n"
        f"<style>{style_sheet()}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _header(report: AuditReport, title: str) -> Iterator[str]:
    made = f"Made {escape(report.made.at)} by ringlog {escape(report.made.release)}"
    yield f"<header><h1>{escape(title)}</h1><p>{made}</p></header>"


def _verdict(report: AuditReport) -> Iterator[str]:
    yield f'<section class="verdict {report.trust}" aria-labelledby="verdict">'
    yield f'<h2 id="verdict">{_MARKS[report.trust]}</h2><p>{report.headline}</p><ul>'
    for source in report.sources:
        # The epochs of a fault are part of its sentence.
        yield f"<li><code>{escape(source.name)}</code>: {escape(source.said)}</li>"
    yield f"<li>{escape(_replay_said(report))}</li></ul></section>"


def _replay_said(report: AuditReport) -> str:
    replay = report.contents.replay if report.contents is not None else None
    if replay is None:
        is_intact = report.trust is Trust.UNRECOMPUTED
        return "No entry was executed again." if is_intact else "No entry could be replayed."
    others = sum(replay.counts.values()) - replay.errors
    said = f"{replay.entries:,} entries were executed again and held against all rules: "
    said += f"{replay.errors:,} errors, {others:,} warnings and notes."
    for part in replay.unchecked:
        said += f" Epochs {part.first} to {part.last} could not be checked."
    return said


def _sections(report: AuditReport) -> Iterator[str]:
    contents = report.contents
    if contents is not None:
        axis = Axis(contents.after, max(contents.tip, contents.after + 1))
        yield from facts_section(contents)
        if contents.replay is not None:
            yield from findings_section(contents.replay)
        # Where no entry could be read, "nobody did anything" would be a lie.
        if contents.replay is not None and contents.replay.entries:
            yield from sequences_section(contents.chronicle, axis)
            yield from placement_section(contents.chronicle, axis)
            yield from people_section(contents.replay)
            yield from kinds_section(contents.chronicle)
    yield from proofs_section(report)
