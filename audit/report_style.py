"""How a report looks: on a screen, light or dark, and on paper."""

from __future__ import annotations

BANDS = (
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#b279a2",
    "#e45756",
    "#72b7b2",
    "#eeca3b",
    "#9d755d",
    "#ff9da6",
    "#79706e",
    "#6b6ecf",
)

_LIGHT = """
  --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #59636e; --line: #d9dee4;
  --good: #116329; --good-back: #dafbe1; --warn: #7a4d00; --warn-back: #fff4cf;
  --bad: #a40e26; --bad-back: #ffebe9; --under: #e4e8ed; --bar: #4c78a8;
"""
_DARK = """
  --page: #0d1117; --card: #161b22; --ink: #e6edf3; --soft: #9aa5b1; --line: #30363d;
  --good: #7ee2a0; --good-back: #0f2e1a; --warn: #f0c674; --warn-back: #352a0c;
  --bad: #ff9a94; --bad-back: #471318; --under: #2b323b; --bar: #6ea4da;
"""

_RULES = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 1.7rem; margin: 0 0 2px; }
h2 { font-size: 1.2rem; margin: 0 0 10px; }
header p, .soft { color: var(--soft); margin: 0 0 16px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 20px; margin: 0 0 18px; }
.verdict { border-left-width: 8px; }
.verdict h2 { font-size: 1.35rem; margin-bottom: 6px; }
.verdict ul { margin: 6px 0 0; padding-left: 20px; }
.verdict.anchored { border-color: var(--good); background: var(--good-back); color: var(--good); }
.verdict.unanchored, .verdict.unrecomputed {
  border-color: var(--warn); background: var(--warn-back); color: var(--warn); }
.verdict.tampered, .verdict.broken, .verdict.misused {
  border-color: var(--bad); background: var(--bad-back); color: var(--bad); }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr));
  gap: 14px; margin: 0; }
dl.facts dt { color: var(--soft); font-size: .82rem; }
dl.facts dd { margin: 0; font-size: 1.15rem; font-weight: 600; overflow-wrap: anywhere; }
dl.facts dd small { display: block; font-weight: 400; font-size: .82rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; color: var(--soft); padding-bottom: 6px; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-top: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; font-size: .82rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, .hash { font: .85em/1.4 ui-monospace, "Liberation Mono", monospace; overflow-wrap: anywhere; }
pre { background: var(--page); border: 1px solid var(--line); border-radius: 6px; padding: 10px;
  overflow-x: auto; }
.grade { display: inline-block; padding: 0 8px; border-radius: 99px; font-size: .82rem; }
.grade.error { background: var(--bad-back); color: var(--bad); }
.grade.warning { background: var(--warn-back); color: var(--warn); }
.grade.note { background: var(--under); color: var(--ink); }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11px; }
svg text.row { fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
.under { fill: var(--under); }
.prepare { fill: #9ecae9; } .start { fill: #4c78a8; } .mid { fill: #f58518; }
.finish { fill: #54a24b; } .retire { fill: #79706e; } .cancel { fill: #e45756; }
.band { stroke: var(--card); stroke-width: .6; }
.rest { fill: #a8b0b8; }
.meter { fill: var(--bar); }
td > svg { margin-top: .45em; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 10px 0 0; padding: 0;
  list-style: none; font-size: .85rem; color: var(--soft); }
.legend svg { display: inline-block; width: 12px; height: 12px; vertical-align: -1px;
  margin-right: 5px; }
details summary { cursor: pointer; color: var(--soft); }
@media print {
  body { font-size: 11px; } main { max-width: none; padding: 0; }
  section { break-inside: avoid; border-radius: 0; } section.long { break-inside: auto; }
  tr { break-inside: avoid; } thead { display: table-header-group; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def style_sheet() -> str:
    bands = "\n".join(f".n{number} {{ fill: {colour}; }}" for number, colour in enumerate(BANDS))
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}"
    return f":root {{ color-scheme: light dark; {_LIGHT} }}\n{dark}\n{_RULES}\n{bands}\n"
