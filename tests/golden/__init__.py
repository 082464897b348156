"""Logs and images that releases have written, and how they were made."""
