"""Random histories over the pure core, compared with a naive model."""
