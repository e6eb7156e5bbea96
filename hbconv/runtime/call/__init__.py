"""A call: rows of any kind become the answer of a method; ``page`` has it on one page."""
