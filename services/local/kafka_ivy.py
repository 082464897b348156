"""The Ivy that lies inside PySpark, and the Java it runs on."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from services.local.command import Finished, run
from services.local.failure import LocalServerError

VERSION = "4.1.0"
# Shorter than others wait for their turn. What Ivy has got by then it need not fetch again.
FETCH_TIMEOUT_S = 170.0

# Kafka names no implementation for its logging; without one it dies silently.
_MODULES = f"""<ivy-module version="2.0">
  <info organisation="ringlog" module="kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3"
                conf="default->default"/>
  </dependencies>
</ivy-module>
"""

# How a machine tells its Java programs of a proxy or of a certificate authority.
_HANDED_ON = ("HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


async def retrieved(folder: Path) -> None:
    """Put Kafka's jars into `folder`, through work kept beside it until that succeeds."""
    work = folder.parent / "ivy"
    modules = work / "ivy.xml"
    work.mkdir(exist_ok=True)
    modules.write_text(_MODULES, encoding="utf-8")
    kept = [f"{name}={os.environ[name]}" for name in _HANDED_ON if name in os.environ]
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    options = ("-ivy", str(modules), "-cache", str(work), "-confs", "default", "-retrieve", pattern)
    command = ("env", *kept, java(), "-jar", str(_program()), *options)
    try:
        finished = await run(command, timeout_s=FETCH_TIMEOUT_S)
    except TimeoutError:
        raise LocalServerError(
            f"Kafka's jars did not arrive within {FETCH_TIMEOUT_S:.0f} s: try again, what came "
            "is kept."
        ) from None
    if not finished.succeeded:
        raise LocalServerError(
            f"Kafka's jars cannot be fetched ({_complaint(finished)}): check that the package "
            "registry can be reached."
        )
    # The jars are in place now; a damaged one must not be taken from here again.
    shutil.rmtree(work)


def java() -> str:
    """The Java program that JAVA_HOME or the path names."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        raise LocalServerError(
            "Kafka needs a Java runtime: install Java 17 or later (on Debian and Ubuntu: "
            "openjdk-17-jre-headless), or let JAVA_HOME name one."
        )
    return found


def _program() -> Path:
    # Found without importing, which takes seconds.
    wheel = importlib.util.find_spec("pyspark")
    if wheel is None or wheel.origin is None:
        raise LocalServerError("Ivy, which fetches Kafka, is missing: install pyspark.")
    found = sorted((Path(wheel.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise LocalServerError("This PySpark has no Ivy to fetch Kafka with: install 4.0 or later.")
    return found[-1]


def _complaint(finished: Finished) -> str:
    lines = [line.strip() for line in finished.output.splitlines()]
    missing = [line.strip(": ") for line in lines if line.endswith("not found")]
    return (missing or [finished.reason])[0]
