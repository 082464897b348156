"""Real Postgres, real Kafka, local Spark."""
