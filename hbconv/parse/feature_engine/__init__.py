"""Parsers of feature-engine, whose transformers read and return frames."""
