"""hbconv: a compiler for classical machine learning."""

__version__ = "0.1.0"
