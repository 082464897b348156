"""What every test run has in common."""

from hypothesis import settings

pytest_plugins = ["tests.fixtures.kafka", "tests.fixtures.postgres", "tests.fixtures.spark"]

# A busy machine is no finding, hence no deadline; a failure prints what reproduces it.
settings.register_profile("ringlog", deadline=None, print_blob=True)
settings.load_profile("ringlog")
