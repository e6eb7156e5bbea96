"""Trees with categorical splits, by traversal."""
