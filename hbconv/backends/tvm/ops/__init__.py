"""Emitters of primitives, except those of trees."""
