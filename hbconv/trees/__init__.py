"""Trees: what all parsers make of them, what all backends read, and what numpy computes.

A file here knows forests, primitives and numpy, and neither a library nor a backend. Importing any
of them defines the primitives of trees, so whoever has a forest can write them.
"""

import hbconv.trees.primitives  # noqa: F401
