"""Looking at a log offline: verify, replay, compare, report."""
