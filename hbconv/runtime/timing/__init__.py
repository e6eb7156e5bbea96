"""Timing for ``tune=``: rows to time with, a clock, and records kept on disk."""
