"""Nodes packed in two words, for traversals without a branch."""
