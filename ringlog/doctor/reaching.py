"""Is anybody there, and can they do their work? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ringlog.doctor.finding import Finding, Limits
from ringlog.doctor.picture import Asked, Database, Picture

MAJORS = range(15, 19)
"""The releases of PostgreSQL that the log is tested with."""
UNAVAILABLE = (None, "unavailable")
DIVERGED = "diverged_log"
FORBIDDEN = ("unauthorized", "forbidden")
QUESTIONS_SHOWN_MAX = 6


def connection(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    return _connection(picture)


def postgres(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    if picture.database is None:
        return None
    return _postgres(picture, picture.database)


def _connection(picture: Picture) -> Iterator[Finding]:
    local = picture.local
    if local is not None and not local.runs:
        yield Finding(
            code="nothing_runs",
            subject=local.state_dir,
            sentence=f"No process of a cluster runs in {local.state_dir}.",
            command=f"ringlog up{picture.where} --detach",
        )
        return
    for item in picture.cms:
        yield from _one_cms(picture, item)
    yield from _all_cms(picture)
    if picture.is_reachable and picture.unanswered:
        yield _questions(picture)


def _one_cms(picture: Picture, item: Asked) -> Iterator[Finding]:
    if not item.answered:
        yield Finding(
            code="cms_down",
            subject=item.name,
            sentence=f"{item.name} at {item.url} does not answer: {item.complaint}.",
            command=back(picture, item.name),
        )
    # What Postgres does to them all is said once, of Postgres; and so is another history.
    elif not item.ready and item.code != DIVERGED and not _excused(picture, item):
        yield Finding(
            code="cms_not_ready",
            subject=item.name,
            sentence=f"{item.name} answers but cannot commit: {_said(item)}",
            command=logs(picture, item.name),
        )


def _all_cms(picture: Picture) -> Iterator[Finding]:
    found = [item for item in picture.cms if item.answered]
    clusters = sorted({item.cluster for item in found if item.cluster is not None})
    if len(clusters) > 1:
        yield Finding(
            code="two_clusters",
            subject=", ".join(item.name for item in found),
            sentence=f"These addresses are of {len(clusters)} clusters: {', '.join(clusters)}.",
            command=f"ringlog doctor --url {found[0].url}",
        )
    if found and picture.tip == 0:
        yield Finding(
            code="not_founded",
            subject=found[0].name,
            sentence="No cluster is founded here yet.",
            command=f"ringlog commit Initialize name=ringlog partitioner=xxhash64{picture.where}",
        )
    # Who was asked by an address alone may be forwarding to one that was not asked.
    ready = picture.local is not None and all(item.answered and item.ready for item in picture.cms)
    if found and ready and not any(item.sequencing for item in found):
        yield Finding(
            code="nobody_sequences",
            subject="cms",
            sentence="Every CMS answers and none of them sequences.",
            command=logs(picture, found[0].name),
        )


def _questions(picture: Picture) -> Finding:
    names = [item.question for item in picture.unanswered]
    more = len(names) - QUESTIONS_SHOWN_MAX
    shown = ", ".join(names[:QUESTIONS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    first = picture.unanswered[0].complaint.rstrip(".")
    refused = picture.unanswered[0].complaint.startswith(FORBIDDEN)
    return Finding(
        code="not_answered",
        subject="cms",
        sentence=f"A CMS is there, and did not say: {shown} ({first}).",
        command=f"ringlog doctor{picture.where} --token TOKEN"
        if refused
        else f"ringlog status{picture.where}",
    )


def _postgres(picture: Picture, seen: Database) -> Iterator[Finding]:
    if seen.complaint is not None:
        yield Finding(
            code="postgres_down",
            subject="postgres",
            sentence=f"Postgres does not answer, so nothing can be committed: {seen.complaint}.",
            command=back(picture, "postgres"),
        )
        return
    if seen.major not in MAJORS:
        yield Finding(
            code="postgres_version",
            subject="postgres",
            sentence=f"Postgres is {seen.version}; the log is tested with "
            f"{MAJORS[0]} to {MAJORS[-1]}.",
            command="pg_upgrade --help",
        )
    for setting in seen.lax:
        yield Finding(
            code="postgres_not_durable",
            subject="postgres",
            sentence=f"Postgres has {setting} off and may lose what it acknowledged.",
            command=f'psql -c "ALTER SYSTEM SET {setting} = on" -c "SELECT pg_reload_conf()"',
        )
    if seen.missing:
        yield Finding(
            code="schema_behind",
            subject="postgres",
            sentence=f"The database lacks {len(seen.missing)} of this release's migrations, first "
            f"{seen.missing[0]}.",
            command="python -m migrations",
        )
    if seen.unknown:
        yield Finding(
            code="schema_ahead",
            subject="postgres",
            sentence=f"The database has migrations that release {picture.release} does not know, "
            f"first {seen.unknown[0]}.",
            command="pip install --upgrade ringlog",
        )


def back(picture: Picture, name: str) -> str:
    """What brings a process back."""
    local = picture.local
    if local is None:
        usual = {
            "postgres": "systemctl restart postgresql",
            "driver": f"ringlog driver --seeds {','.join(picture.urls)}",
        }
        return picture.start or usual.get(name, "ringlog cms")
    if local.supervisor is None:
        return f"ringlog up{picture.where} --detach"
    if name == "postgres":
        return f"ringlog down{picture.where} && ringlog up{picture.where} --detach"
    return logs(picture, name)


def logs(picture: Picture, name: str) -> str:
    if picture.local is None:
        return f"ringlog status{picture.where}"
    return f"tail {picture.local.state_dir}/{name}.log"


def _excused(picture: Picture, item: Asked) -> bool:
    seen = picture.database
    return seen is not None and seen.complaint is not None and item.code in UNAVAILABLE


def _said(item: Asked) -> str:
    text = item.detail or item.complaint or item.code or "it does not say why"
    return text if text.endswith(".") else f"{text}."
