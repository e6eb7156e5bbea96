"""Parsers of LightGBM: estimators, Booster and model text."""
