"""The ordered history: entries, their chain, their store and their spreading."""
