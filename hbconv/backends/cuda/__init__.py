"""Trees on CUDA devices: kernels in ``kernels/``, the tables they read, and how they are launched.

Backends ``torch`` and ``tvm`` call them; this package knows neither torch
nor TVM. It is built in this order:

1. ``edges`` and ``columns`` turn thresholds and categories into codes of one byte.
2. ``bits``, ``walk``, ``few`` and ``leaf_sums`` make the tables of one kernel each.
3. ``choose`` predicts which of them are fastest; ``clocks`` counts what each does.
4. ``compile`` makes machine code by NVRTC; ``driver`` loads and launches it, and
   ``device_memory`` copies arrays.
"""
