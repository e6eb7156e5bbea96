"""Parsers of ``sklearn.impute``."""
