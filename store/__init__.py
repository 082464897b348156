"""A node's own tables: hot rows in SQLite, cold ones in Parquet segments."""
