"""Founding a cluster whose processes somebody else starts, such as Docker Compose."""
