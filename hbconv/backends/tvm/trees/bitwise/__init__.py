"""Trees by select on bit planes."""
