"""Pure code, in milliseconds."""
