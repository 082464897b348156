"""The web console: static files that talk to the public API."""
