"""Trees for one row, or a few."""
