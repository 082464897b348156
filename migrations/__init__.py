"""The Postgres schema, numbered and forward only."""
