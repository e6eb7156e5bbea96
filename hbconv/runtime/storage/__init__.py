"""Models as files, and back."""
