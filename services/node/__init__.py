"""A node: follows the log, keeps its own copy of it, and serves it to others."""
