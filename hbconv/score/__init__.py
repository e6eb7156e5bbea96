"""Score tables of any size and format: read, answer and write their rows, and lose none."""
