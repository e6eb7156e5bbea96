"""What parsers of several modules share: scores, kernels, metrics, tables of categories."""
