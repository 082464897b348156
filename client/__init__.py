"""Async client: propose, read, follow; retries by entry id."""
