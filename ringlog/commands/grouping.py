"""Verbs that have commands of their own."""

from __future__ import annotations

import typer

from ringlog.commands.ending import Exit, end


def is_for_command(context: typer.Context) -> bool:
    """Whether a command of the group is meant, whose options stand behind it.

    Taking no notice of one that stands before it would ask another cluster.
    """
    if context.invoked_subcommand is None:
        return False
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise end(
                f"Options go behind the command: {context.info_name} "
                f"{context.invoked_subcommand} … --{_option(name)} ….",
                Exit.WRONG_USE,
            )
    return True


def _option(name: str) -> str:
    return "json" if name == "as_json" else name.replace("_", "-")
