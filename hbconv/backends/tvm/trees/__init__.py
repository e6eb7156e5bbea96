"""How forests are emitted."""
