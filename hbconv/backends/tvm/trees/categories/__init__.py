"""Categorical splits: which sets of categories they ask for, and what each set decides."""
