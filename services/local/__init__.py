"""Everything on one machine, for `ringlog up`."""
