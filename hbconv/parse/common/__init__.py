"""What parsers of several estimators share: scores, kernels, metrics, tables of categories."""
