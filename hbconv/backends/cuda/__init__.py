"""Trees on CUDA devices: kernels in ``kernels/``, the tables they read, and how they are launched.

Backends ``torch`` and ``tvm`` call them; this package knows neither torch nor TVM. A forest goes
through it in this order:

1. ``columns`` turns thresholds and categories into codes of one byte, and plans the kernel that
   computes them; ``tree_order`` sorts trees and nodes.
2. ``bits``, ``walk``, ``deep`` and ``few`` make the tables of one kernel each, as a ``plan``, which
   says how they are launched.
3. ``clocks`` predicts the time of each, and ``choose`` takes the fastest.
4. ``compile`` makes machine code by NVRTC, and ``driver`` loads it.
"""
