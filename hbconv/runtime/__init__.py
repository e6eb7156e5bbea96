"""The runtime: from what the user gives to the program's inputs, and from its results to the estimator's answers."""
