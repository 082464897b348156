"""What Spark's own hash function answers."""
