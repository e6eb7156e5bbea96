"""Model: what the user holds. It answers as the fitted estimator does."""
