"""Trees on CUDA devices: kernels in ``kernels/``, the tables they read, and how they are launched.

Backend ``torch`` calls them on its tensors; this package knows no torch. It is built in this order:

1. ``edges`` and ``columns`` turn thresholds and categories into codes of one byte.
2. ``bits``, ``walk``, ``few`` and ``leaf_sums`` make the tables of one kernel each.
3. ``choose`` predicts which of them are fastest; ``clocks`` counts what each does.
4. ``compile`` makes machine code by NVRTC; ``driver`` loads and launches it.
"""
