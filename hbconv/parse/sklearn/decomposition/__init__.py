"""Parsers of ``sklearn.decomposition``."""
