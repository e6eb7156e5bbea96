"""From computed values to the answers of the estimator."""
