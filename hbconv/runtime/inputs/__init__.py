"""From what the user passes to a table of columns."""
