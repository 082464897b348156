"""The front door: the command, connecting, the Spark data source."""
