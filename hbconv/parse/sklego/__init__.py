"""Parsers of scikit-lego."""
