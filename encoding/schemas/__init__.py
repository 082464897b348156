"""Avro schemas, one per kind and version: added, never edited."""
