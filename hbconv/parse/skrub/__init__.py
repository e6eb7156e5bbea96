"""Parsers of skrub, whose transformers read and return frames, column by column."""
