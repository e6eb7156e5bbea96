"""The builder of TIR functions."""
