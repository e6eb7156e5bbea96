"""Thresholds and values as bytes."""
