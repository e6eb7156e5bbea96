"""What a model tells of itself: plans, graphs, kernels."""
