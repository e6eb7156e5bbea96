"""Write a tensor program as one TIR function."""
