"""Parsers of ``sklearn.compose``."""
