"""Shortcuts through the log."""
