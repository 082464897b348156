"""The processes of this machine, its disks, its files and its clock. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringlog.commands.figures import duration, percent, size
from ringlog.doctor.finding import Finding, Limits
from ringlog.doctor.picture import Asked, Disk, Local, Picture
from ringlog.doctor.reaching import back, logs

READABLE_BY_OTHERS = 0o077
WITH_OWN_CHECK = ("cms", "postgres")
"""Their silence is said by the checks of the connection and of Postgres."""


def processes(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    local = picture.local
    if local is None:
        drivers = [item for item in picture.asked if item.role == "driver"]
        return _drivers(picture, drivers) if drivers else None
    return _processes(picture, local) if local.runs else None


def clocks(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    found = [(item.name, item.skew_s) for item in picture.asked if item.skew_s is not None]
    if picture.database is not None and picture.database.skew_s is not None:
        found.append(("postgres", picture.database.skew_s))
    return _clocks(found, limits) if found else None


def disks(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    """Here by looking, since many share one; elsewhere by what each process tells of its own."""
    local = picture.local
    if local is not None:
        found = [(str(item.path), item) for item in local.disks]
    else:
        found = [(item.name, item.disk) for item in picture.asked if item.disk is not None]
    return _disks(found, limits) if found else None


def secrets(picture: Picture, limits: Limits) -> Iterator[Finding] | None:
    del limits
    return None if picture.local is None else _secrets(picture.local)


def silent(picture: Picture) -> set[str]:
    """Addresses of processes of which it is said already that they do not answer."""
    local = picture.local
    gone = set() if local is None else {item.name for item in local.processes if not item.alive}
    return {item.url for item in picture.asked if item.name in gone or _is_mute(picture, item)}


def _processes(picture: Picture, local: Local) -> Iterator[Finding]:
    up = f"ringlog up{picture.where} --detach"
    if local.supervisor is None:
        yield Finding(
            code="supervisor_missing",
            subject=local.state_dir,
            sentence="The supervisor has died: the processes run, but none that dies comes back.",
            command=up,
        )
    for item in local.processes:
        if not item.alive:
            yield Finding(
                code="process_missing",
                subject=item.name,
                sentence=f"{item.name} should run on this machine and does not.",
                command=up if local.supervisor is None else logs(picture, item.name),
            )
    for asked in picture.asked:
        if _is_mute(picture, asked):
            yield _mute(picture, asked)
        elif asked.role not in WITH_OWN_CHECK and asked.answered and not asked.ready:
            yield _unready(picture, asked)
    if local.drives and not local.has_java:
        yield Finding(
            code="no_java",
            subject="driver",
            sentence="No Java is found on this machine, so the driver cannot move rows.",
            command="apt-get install openjdk-17-jre-headless",
        )


def _drivers(picture: Picture, drivers: Iterable[Asked]) -> Iterator[Finding]:
    """Elsewhere; of nodes and CMS processes other checks tell."""
    for item in drivers:
        if not item.answered:
            yield Finding(
                code="driver_down",
                subject=item.name,
                sentence=f"The driver at {item.url} does not answer: {item.complaint}.",
                command=back(picture, "driver"),
            )
        elif not item.ready:
            yield _unready(picture, item)


def _unready(picture: Picture, item: Asked) -> Finding:
    return Finding(
        code="process_not_ready",
        subject=item.name,
        sentence=f"{item.name} answers but does not serve: {_said(item)}",
        command=logs(picture, item.name),
    )


def _mute(picture: Picture, item: Asked) -> Finding:
    pid = _pid(picture, item)
    return Finding(
        code="process_silent",
        subject=item.name,
        sentence=f"{item.name} runs as process {pid} and does not answer: {item.complaint}.",
        command=f"kill -CONT {pid} || kill -9 {pid}",
    )


def _is_mute(picture: Picture, item: Asked) -> bool:
    if item.answered or item.role in WITH_OWN_CHECK:
        return False
    return _pid(picture, item) is not None


def _pid(picture: Picture, item: Asked) -> int | None:
    """Of a process of this machine that lives."""
    if picture.local is None:
        return None
    living = (other for other in picture.local.processes if other.alive)
    return next((other.pid for other in living if other.name == item.name), None)


def _clocks(found: Iterable[tuple[str, float]], limits: Limits) -> Iterator[Finding]:
    for name, skew_s in found:
        if abs(skew_s) > limits.skew_s:
            side = "ahead of" if skew_s > 0 else "behind"
            yield Finding(
                code="clock_skew",
                subject=name,
                sentence=f"The clock of {name} is {duration(abs(skew_s))} {side} this machine's.",
                command="timedatectl set-ntp true",
            )


def _disks(found: Iterable[tuple[str, Disk]], limits: Limits) -> Iterator[Finding]:
    for name, item in found:
        part = item.free_bytes / max(item.total_bytes, 1)
        if 100 * part < limits.free_percent:
            where = "" if item.path is not None else "; look there"
            yield Finding(
                code="disk_full",
                subject=name,
                sentence=f"The disk of {name} has {size(item.free_bytes)} left, "
                f"{percent(part)} of it{where}.",
                command=f"du -xh --max-depth 2 {item.path or '$RINGLOG_STATE_DIR'}",
            )


def _secrets(local: Local) -> Iterator[Finding]:
    for item in local.secrets:
        if item.mode & READABLE_BY_OTHERS:
            yield Finding(
                code="secret_readable",
                subject=item.path,
                sentence=f"{item.path} holds secrets and others may read it "
                f"(mode {item.mode:04o}).",
                command=f"chmod 600 {item.path}",
            )


def _said(item: Asked) -> str:
    text = item.detail or item.code or "it does not say why"
    return text if text.endswith(".") else f"{text}."
