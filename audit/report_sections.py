"""The sections of a report, each from what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from audit.findings import Finding, Grade
from audit.pictures import STEP_CLASSES, Axis, areas, band_class, largest, timeline
from audit.replay import Report
from audit.report import AuditReport, Contents, Trust
from audit.report_chronicle import Chronicle, Course
from audit.report_parts import cell, hashed, legend, meter, moment, number, percent, table

FINDINGS_SHOWN_MAX = 300
PEOPLE_SHOWN_MAX = 300
AS_CLAIMED = (
    "Names are those that the senders gave themselves. The role is the least that may commit these "
    "kinds; the log does not record which role or token was used."
)


def facts_section(contents: Contents) -> Iterator[str]:
    chronicle = contents.chronicle
    facts = [
        ("Cluster", contents.name or "–", contents.cluster),
        ("Epochs", f"{contents.after + 1:,} to {contents.tip:,}", ""),
        ("First entry", moment(chronicle.began_at), ""),
        ("Last entry", moment(chronicle.ended_at), ""),
        ("Sequences", f"{chronicle.sequences_total:,}", ""),
    ]
    rows = "".join(
        f"<div><dt>{label}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for label, value, more in facts
    )
    yield f'<section aria-label="Overview"><dl class="facts">{rows}</dl></section>'


def findings_section(replay: Report) -> Iterator[str]:
    """Errors and warnings in full view; notes, of which there may be many, folded away."""
    serious = [item for item in replay.findings if item.grade is not Grade.NOTE]
    notes = [item for item in replay.findings if item.grade is Grade.NOTE]
    serious.sort(key=lambda item: (item.grade is not Grade.ERROR, item.epoch))
    yield '<section class="long" aria-labelledby="findings"><h2 id="findings">Findings</h2>'
    yield _found(serious[:FINDINGS_SHOWN_MAX]) if serious else "<p>No errors and no warnings.</p>"
    if notes:
        summary = f"<summary>{len(notes):,} notes, which need no explanation</summary>"
        yield f"<details>{summary}{_found(notes[:FINDINGS_SHOWN_MAX])}</details>"
    shown = min(len(serious), FINDINGS_SHOWN_MAX) + min(len(notes), FINDINGS_SHOWN_MAX)
    left = sum(replay.counts.values()) - shown
    if left:
        counts = ", ".join(f"{rule} × {count:,}" for rule, count in replay.counts.items())
        yield f'<p class="soft">{left:,} more are counted only. All by rule: {escape(counts)}.</p>'
    yield "</section>"


def _found(findings: Iterable[Finding]) -> str:
    rows = [
        [
            number(item.epoch),
            f'<td><span class="grade {item.grade}">{item.grade}</span></td>',
            cell(item.rule),
            cell(item.explanation),
        ]
        for item in findings
    ]
    return table(("Epoch", "Grade", "Rule", "Explanation"), rows)


def sequences_section(chronicle: Chronicle, axis: Axis) -> Iterator[str]:
    yield '<section class="long" aria-labelledby="sequences"><h2 id="sequences">Sequences</h2>'
    if not chronicle.sequences:
        yield '<p class="soft">There was none.</p></section>'
        return
    total, stride = chronicle.sequences_total, chronicle.sequences_stride
    which = f"One in {stride:,} of {total:,} is shown" if stride > 1 else f"All {total:,} are shown"
    yield f'<p class="soft">{which}; short steps are drawn wider than they were.</p>'
    yield timeline(chronicle.sequences, axis)
    yield legend((style, f"after {step.value}") for step, style in STEP_CLASSES.items())
    rows = [_course(course) for course in chronicle.sequences]
    heads = ("Sequence", "What", "Outcome", "Steps, by epoch", "By", "Reason")
    yield "<details open><summary>As a table</summary>" + table(heads, rows) + "</details>"
    yield "</section>"


def _course(course: Course) -> list[str]:
    what = f"{course.kind} of node {course.node}"
    if course.replaced is not None:
        what += f" for {course.replaced}"
    steps = ", ".join(f"{item.step.value} {item.epoch:,}" for item in course.steps)
    texts = (what, course.outcome, steps, course.actor or "–", course.reason or "–")
    return [number(course.id), *map(cell, texts)]


def placement_section(chronicle: Chronicle, axis: Axis) -> Iterator[str]:
    yield '<section aria-labelledby="placement"><h2 id="placement">Placement over time</h2>'
    if not any(sample.shares for sample in chronicle.samples):
        yield '<p class="soft">Nothing was ever placed.</p></section>'
        return
    every = (
        f"every {chronicle.samples_stride:,}th of {chronicle.samples_total:,} changes is shown"
        if chronicle.samples_stride > 1
        else f"all {chronicle.samples_total:,} changes are shown"
    )
    yield f'<p class="soft">Share of the replicas that are read, by node; {every}.</p>'
    shown = largest(chronicle.samples)
    yield areas(chronicle.samples, axis, shown)
    last = chronicle.samples[-1]
    named = [
        (band_class(band, len(shown)), f"node {node}, at last {percent(last.shares.get(node, 0))}")
        for band, node in enumerate(shown)
    ]
    if any(sample.nodes > len(shown) for sample in chronicle.samples):
        rest = (1 if last.nodes else 0) - sum(last.shares.get(node, 0) for node in shown)
        named.append(("rest", f"the others of {last.nodes:,} nodes, at last {percent(rest)}"))
    yield legend(named) + "</section>"


def people_section(replay: Report) -> Iterator[str]:
    rows = []
    for deeds in replay.people[:PEOPLE_SHOWN_MAX]:
        ordered = sorted(deeds.kinds.items(), key=lambda pair: -pair[1])
        did = ", ".join(f"{kind} × {count:,}" for kind, count in ordered)
        total = sum(deeds.kinds.values())
        rows.append([cell(deeds.actor or "no name"), cell(deeds.role), number(total), cell(did)])
    left = len(replay.people) - len(rows)
    more = f" {left:,} more are in the JSON report." if left else ""
    said = AS_CLAIMED + more if rows else ""
    heads = ("Who, by their own account", "Role it takes", "Entries", "What")
    yield from _tabled("Who did what", heads, rows, said, "Nobody did anything.")


def kinds_section(chronicle: Chronicle) -> Iterator[str]:
    most = max(chronicle.kinds.values(), default=1)
    rows = [
        [cell(kind), number(count), f"<td>{meter(count / most)}</td>"]
        for kind, count in chronicle.kinds.items()
    ]
    yield from _tabled(
        "Entries by kind",
        ("Kind", "Entries", "Beside the most frequent"),
        rows,
        "",
        "There is no entry.",
    )


def proofs_section(report: AuditReport) -> Iterator[str]:
    contents = report.contents
    facts: list[list[str]] = []
    if contents is not None:
        facts.append([cell("Hash of the last entry"), hashed(contents.hash)])
        if contents.root is not None:
            facts.append([cell(f"Merkle root of {contents.tip:,} entries"), hashed(contents.root)])
        if contents.replay is not None and contents.replay.entries:
            facts.append([cell("State digest at the end"), hashed(contents.replay.digest)])
    facts.extend([cell("Key that was given"), hashed(key)] for key in report.keys)
    yield '<section class="long" aria-labelledby="proofs"><h2 id="proofs">Proofs</h2>'
    if report.trust is Trust.TAMPERED:
        yield "<p><strong>This is what the archive says of itself; it is not true.</strong></p>"
    yield table(("What", "Value"), facts)
    if report.proofs:
        rows = [
            [
                number(proof.epoch),
                hashed(proof.root),
                cell(", ".join(proof.names)),
                cell(", ".join(proof.signed_by) or "no key that was given"),
            ]
            for proof in report.proofs
        ]
        heads = ("Entries", "Root", "Names on the checkpoint", "Signature checked with")
        yield "<h3>Checkpoints</h3>" + table(heads, rows)
    yield '<p class="soft">Check it yourself:</p><pre>'
    is_live = contents is not None and contents.root is None
    if is_live:
        yield "ringlog audit export backup/ --sign THE_PRIVATE_KEY"
    places = ["backup/"] if is_live else dict.fromkeys(source.name for source in report.sources)
    # Together, because one may need the metadata in which another ends.
    words = ["ringlog audit verify", *map(escape, places), "--key THE_PUBLIC_KEY"]
    if report.trust is not Trust.UNRECOMPUTED:
        words.append("--recompute")
    yield " ".join(words)
    yield "</pre></section>"


def _tabled(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], more: str, empty: str
) -> Iterator[str]:
    anchor = title.lower().replace(" ", "-")
    yield f'<section class="long" aria-labelledby="{anchor}"><h2 id="{anchor}">{title}</h2>'
    yield table(heads, rows) if rows else f'<p class="soft">{empty}</p>'
    yield f'<p class="soft">{more}</p></section>' if more else "</section>"
