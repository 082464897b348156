"""What every test run has in common."""

import gc
import os
import random
import signal

from hypothesis import settings

from tests.fixtures import spark_classes

pytest_plugins = ["tests.fixtures.kafka", "tests.fixtures.postgres", "tests.fixtures.spark"]

# A busy machine is no finding, hence no deadline; a failure prints what reproduces it.
settings.register_profile("ringlog", deadline=None, print_blob=True)
settings.load_profile("ringlog")

# Whoever runs the tests in the background may ignore Ctrl-C, and so would every child of theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Java processes of tests live for seconds. The thorough compiler would spend as much processor
# time on each as everything else together, and never earn it back.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
spark_classes.use()

# Thousands of tests are kept to the end of a run; looking through all of them for garbage again and
# again takes a tenth of it.
gc.set_threshold(200_000, 20, 100)

# Drawn once for all workers of a run, because it is part of the names of tests.
os.environ.setdefault("SIMULATION_SEED", str(random.SystemRandom().randrange(10**6)))
