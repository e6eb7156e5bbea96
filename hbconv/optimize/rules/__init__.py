"""The rules, one a file: file, function and golden have one name. ``RULES`` holds the order."""
