"""Rewrites of a tensor program before it is emitted. They import no TVM."""
