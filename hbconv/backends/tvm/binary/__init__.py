"""Compiled code: built, kept, loaded, called."""
