"""What a model shares with its source: its files, methods and arguments, and a comparison."""
