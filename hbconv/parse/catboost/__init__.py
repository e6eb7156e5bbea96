"""Parsers of CatBoost: estimators and model JSON."""
