"""`ringlog audit …`: what happened, whether it was allowed, and what would have come of it."""

from __future__ import annotations

import typer

from ringlog.commands.audit_archive import export
from ringlog.commands.audit_blame import blame, why
from ringlog.commands.audit_import import import_archive
from ringlog.commands.audit_proofs import check_proof, keygen, prove
from ringlog.commands.audit_replay import bisect, replay
from ringlog.commands.audit_report import report
from ringlog.commands.audit_reproduce import reproduce
from ringlog.commands.audit_travel import diff, owners, show
from ringlog.commands.audit_trim import trim
from ringlog.commands.audit_verify import verify
from ringlog.commands.audit_whatif import whatif
from ringlog.commands.audit_witness import witness

audit = typer.Typer(
    name="audit",
    help="Look into a history, in an archive or of a running cluster, and prove what it says.",
    no_args_is_help=True,
)

_LOOKING = (show, diff, owners, blame, why, bisect, replay, whatif, report)
_PROVING = (export, verify, trim, reproduce, keygen, prove, check_proof, witness)

for verb in (*_LOOKING, *_PROVING):
    audit.command()(verb)
audit.command("import")(import_archive)
