"""Under whose name a server runs: PostgreSQL refuses to run as root."""

from __future__ import annotations

import contextlib
import os
import pwd
from pathlib import Path

import msgspec

from services.local.command import run
from services.local.failure import LocalServerError

ACCOUNT = "ringlog"
FALLBACK_ACCOUNT = "nobody"
ROOT_UID = 0
USERADD_TIMEOUT_S = 10.0
PROBE_TIMEOUT_S = 10.0

# To enter folders that are closed to the account. `access` asks for the capabilities of a user
# other than root only where the set-user-id fix-up is off, and PostgreSQL's programs look for
# each other with it.
_ENTER_ANYWHERE = (
    "--securebits=+no_setuid_fixup",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
)


class Account(msgspec.Struct, frozen=True):
    """Who owns a server's files, and what to put before a command to run it as that user."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()

    def take(self, path: Path) -> None:
        """Make a file or folder of ours belong to the account."""
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid)


async def account_for(home: Path, program: Path) -> Account:
    """The account to run `program` with its files in our folder `home`, which it is given.

    Whoever owns the folder already goes on owning it, so a cluster that somebody started under
    their own name can be started by root and then by them again. A folder of root's goes to a
    user of the server's own.

    Such a user often cannot enter the folders above `home` or `program`: those of root are closed
    to everybody else. Opening them is not ours to do, and files kept elsewhere would outlive the
    state directory. So there, and only there, the server keeps the right to enter and read, which
    root has; it still writes nowhere but in `home`.
    """
    if os.geteuid() != ROOT_UID:
        return Account(os.geteuid(), os.getegid())
    uid, gid = await _owner_but_root(home)
    drop = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs")
    for prefix in (drop, (*drop, *_ENTER_ANYWHERE)):
        if await _reaches(prefix, home, program):
            return Account(uid, gid, prefix)
    raise LocalServerError(
        f"User {pwd.getpwuid(uid).pw_name}, under whom PostgreSQL has to run because we are root, "
        f"cannot reach {home} or {program}: choose folders that every user may enter."
    )


async def _owner_but_root(home: Path) -> tuple[int, int]:
    uid, gid = _owner(home)
    if uid == ROOT_UID:
        user = await _unprivileged_user()
        uid, gid = user.pw_uid, user.pw_gid
        os.chown(home, uid, gid)
    return uid, gid


def _owner(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_uid, status.st_gid


async def _unprivileged_user() -> pwd.struct_passwd:
    """A system user of our own; where none can be made, the one that owns nothing."""
    if _find(ACCOUNT) is None:
        with contextlib.suppress(FileNotFoundError, TimeoutError):
            await run(
                ("useradd", "--system", "--no-create-home", "--shell=/usr/sbin/nologin", ACCOUNT),
                timeout_s=USERADD_TIMEOUT_S,
            )
    # Asked again whatever useradd said: another start may have been quicker.
    user = _find(ACCOUNT) or _find(FALLBACK_ACCOUNT)
    if user is None:
        raise LocalServerError(
            f"PostgreSQL does not run as root and there is no user {ACCOUNT}: create it."
        )
    return user


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


async def _reaches(prefix: tuple[str, ...], home: Path, program: Path) -> bool:
    # The dot makes the user enter the folder and not just look at it from outside.
    checks = (("test", "-w", f"{home}/."), (str(program), "--version"))
    try:
        return all(
            [(await run((*prefix, *each), timeout_s=PROBE_TIMEOUT_S)).succeeded for each in checks]
        )
    except FileNotFoundError:
        raise LocalServerError(
            "PostgreSQL does not run as root, and setpriv (of util-linux) to start it under "
            "another user is missing: install it."
        ) from None
