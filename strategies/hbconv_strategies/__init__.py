"""Tree strategies, one algorithm a module, found by name. See strategies/README.md."""
