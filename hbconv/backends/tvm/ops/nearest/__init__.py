"""How the nearest points are emitted."""
