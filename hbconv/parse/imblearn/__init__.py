"""Parsers of imbalanced-learn, whose samplers change rows in fitting alone."""
