"""What is being done about sequences, for people who wait for them."""
