"""Scripts of operations with what they are expected to lead to."""
