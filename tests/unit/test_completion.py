"""What a shell offers while a command is typed, and whom it asks for that."""

import typer

from ringlog.commands.completing import node_names
from tests.command import COMMAND
from tests.scripted import nodes, scripted


def test_the_cluster_is_asked_past_any_proxy(monkeypatch):
    with scripted() as cluster, scripted() as proxy:
        cluster.answers["GET /v1/nodes"] = nodes(cluster, 4, 5)
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        context = typer.Context(COMMAND)
        context.params = {"url": cluster.url, "token": "secret"}

        offered = [name for name, _ in node_names(context, "")]

        assert offered == ["4", "5"]
        assert cluster.headers["Authorization"] == "Bearer secret"
        assert proxy.headers == {}
