"""Trees by select on bytes."""
