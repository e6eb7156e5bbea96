"""Parsers of interpret."""
