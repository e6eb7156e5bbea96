"""Tests on categories."""
