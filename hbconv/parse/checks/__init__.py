"""Checks of what was read: damaged files, handmade estimators, contradictions, misfits."""
