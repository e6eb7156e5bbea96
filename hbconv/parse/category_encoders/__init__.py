"""Parsers of category_encoders: each column becomes look-ups of its category."""
