"""The data plane of a node: reads and writes of rows, and what movement asks of it."""
