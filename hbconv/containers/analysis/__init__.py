"""Analyses of a graph that do not run it: intervals, finite outputs, and the row guard."""
