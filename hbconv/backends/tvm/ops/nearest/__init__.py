"""Emitters of nearest points."""
