"""Parsers of ``sklearn.neighbors``."""
