"""The Java process behind PySpark, of which a process of ours has one: ending it, and its traces.

PySpark waits for its answers without a limit, so whoever asks sets one, and kills it behind that.
"""

from __future__ import annotations

from contextlib import suppress
from subprocess import Popen, TimeoutExpired

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped] # ships no types
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # ships no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

END_TIMEOUT_S = 10.0


def kill() -> None:
    """At once, also if it is stopped. Whoever waits for an answer of it gets an error."""
    process = _process_of(SparkContext._gateway)  # noqa: SLF001 - no public way to it
    if process is not None:
        process.kill()
        _ask_no_more()


def forget() -> None:
    """Leave nothing of a Java process that is gone, or of a start that failed halfway."""
    gateway = SparkContext._gateway  # noqa: SLF001 - no public way to it
    process = _process_of(gateway)
    if process is not None and process.poll() is not None:
        _ask_no_more()
    context = SparkContext._active_spark_context  # noqa: SLF001 - no public way to drop it
    if context is not None:
        with suppress(Py4JError, OSError, PySparkException):
            context.stop()
    if gateway is not None:
        _end(gateway)
    SparkContext._gateway = None  # noqa: SLF001 - as above
    SparkContext._jvm = None  # noqa: SLF001 - as above
    SparkContext._active_spark_context = None  # noqa: SLF001 - as above
    SparkSession._instantiatedSession = None  # noqa: SLF001 - as above


def _ask_no_more() -> None:
    """So that PySpark does not try to stop what is gone, and warn of it."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - no public way to it
    if context is not None:
        context._jsc = None  # noqa: SLF001 - as its own `stop` does


def _end(gateway: JavaGateway) -> None:
    """Its Java process ends when its standard input does."""
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process = _process_of(gateway)
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _process_of(gateway: JavaGateway | None) -> Popen[bytes] | None:
    return getattr(gateway, "proc", None)
