"""Recorded answers of other systems."""
