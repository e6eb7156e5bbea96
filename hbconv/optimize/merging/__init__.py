"""What the merging rules share: columns that nodes have in common, and forests side by side."""
