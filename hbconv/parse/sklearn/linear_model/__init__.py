"""Parsers of ``sklearn.linear_model``."""
