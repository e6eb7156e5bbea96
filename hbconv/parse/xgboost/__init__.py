"""Parsers of XGBoost: estimators, Booster and model files."""
