"""Parsers of ``sklearn.ensemble``."""
