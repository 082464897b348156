"""Tests of the source itself."""
