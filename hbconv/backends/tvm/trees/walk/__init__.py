"""Trees by traversal."""
