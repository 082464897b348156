"""What is wrong with a cluster, and the command that mends it."""
