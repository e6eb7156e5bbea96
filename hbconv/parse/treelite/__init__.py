"""Parsers of treelite, the common form in which other libraries give their trees."""
