"""Floats as integers of the same order, which compare in fewer instructions."""
