"""Checks of what was read: damaged files, handmade estimators, contradictions between attributes, graphs that do not fit together."""
