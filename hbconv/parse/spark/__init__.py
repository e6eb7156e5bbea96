"""Parsers of models that Spark ML saved, a file for each kind of stage."""
