"""Passes rewrite or analyze a tensor program before it is emitted; they import no TVM."""
