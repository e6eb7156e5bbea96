"""From a tensor program to one TIR function."""
