"""Trees by traversal, many rows side by side."""
