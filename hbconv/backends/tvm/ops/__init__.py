"""How each primitive is emitted, trees left out."""
