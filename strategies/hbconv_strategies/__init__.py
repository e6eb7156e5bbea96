"""Tree strategies: one algorithm a module, found by module name. See strategies/README.md."""
