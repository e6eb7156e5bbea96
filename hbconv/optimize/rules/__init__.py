"""One rule a file: the file, its function and its golden carry the same name. ``optimize.RULES`` holds the order."""
