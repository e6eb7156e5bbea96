"""Parsers of ``sklearn.preprocessing``."""
