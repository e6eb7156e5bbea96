"""Builders of TIR functions."""
