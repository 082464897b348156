"""The services as real processes, through the client and the console."""
