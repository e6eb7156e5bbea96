"""Contributions of features: every leaf of every tree, at the nodes of an exact rule."""
