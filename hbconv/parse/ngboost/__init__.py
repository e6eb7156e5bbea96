"""Parsers of ngboost, whose trees add up to the parameters of a distribution."""
