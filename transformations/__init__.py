"""Every way the metadata may change, as pure functions."""
