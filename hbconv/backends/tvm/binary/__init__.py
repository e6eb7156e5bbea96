"""Compiled code: build it, cache it, load it, and call it."""
