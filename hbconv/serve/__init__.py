"""The server: models behind HTTP and gRPC.

The rule of this room: bytes become tensors, tensors become rows, and rows become one batch of a
model. A model is asked by its public methods alone, and nothing here compiles after the warm-up.
"""
