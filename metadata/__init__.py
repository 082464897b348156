"""The model: immutable values that describe a cluster at one epoch."""
