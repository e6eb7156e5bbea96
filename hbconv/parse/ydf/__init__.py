"""Parsers of models of YDF (Yggdrasil Decision Forests), in memory and in the folders it saves."""
