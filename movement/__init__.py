"""Moving the data of ranges between nodes, with Spark."""
