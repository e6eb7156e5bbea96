"""What parsers of several modules share: scores, kernels, metrics, trees, members, text columns."""
