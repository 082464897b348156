"""The driver: takes sequences to their end."""
