"""Parsers of statsmodels, whose results of a fit predict."""
