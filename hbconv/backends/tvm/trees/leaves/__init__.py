"""Results from the leaves that a kernel finds: sums of their values, or their numbers."""
