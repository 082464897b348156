"""Tests, one folder per kind of evidence."""
