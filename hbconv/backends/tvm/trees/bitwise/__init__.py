"""Trees by logic on bit planes."""
