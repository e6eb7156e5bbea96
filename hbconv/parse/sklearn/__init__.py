"""Parsers of scikit-learn: one file or folder for each of its public modules."""
