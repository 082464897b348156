"""The `ringlog` command.

Only what the command line itself needs is imported here; each verb imports the rest when it
runs, so that `ringlog --help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ringlog.commands.audit import audit
from ringlog.commands.bench import bench
from ringlog.commands.cancel import cancel, resume
from ringlog.commands.changes import join, leave, move, replace
from ringlog.commands.cms import cms
from ringlog.commands.commit import commit
from ringlog.commands.diff import diff
from ringlog.commands.doctor import doctor
from ringlog.commands.driver import driver
from ringlog.commands.log import log
from ringlog.commands.node import node
from ringlog.commands.nodes import nodes
from ringlog.commands.owners import owners
from ringlog.commands.plan import plan
from ringlog.commands.repair import repair
from ringlog.commands.rows import delete, get, put
from ringlog.commands.scale import scale
from ringlog.commands.schema import schema
from ringlog.commands.sequences import sequences
from ringlog.commands.shell import shell
from ringlog.commands.show import show
from ringlog.commands.snapshot import snapshot
from ringlog.commands.status import status
from ringlog.commands.up import down, up

app = typer.Typer(
    name="ringlog",
    help="Cluster metadata as a log: who is in, who owns what, and what is being moved where.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    typer.echo(f"ringlog {version('ringlog')}")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def command(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Say which release this is."
        ),
    ] = False,
) -> None:
    assert not version, "answered by its callback, before the command itself"


for verb in (
    *(up, down, scale, cms, node, driver, status, nodes, commit, log, show),
    *(join, leave, move, replace, cancel, resume, sequences, repair),
    *(put, get, delete, owners, diff, shell, doctor, bench),
):
    app.command()(verb)
for group in (plan, schema, snapshot, audit):
    app.add_typer(group)


def main() -> None:
    app()
