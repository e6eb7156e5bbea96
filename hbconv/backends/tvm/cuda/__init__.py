"""Programs on CUDA devices: the algorithms of the tile compiler, with one thread per row.

1. ``stages`` cuts a program at its forests.
2. ``source`` writes each part between them as TIR, by the emitters of the tile compiler, and prints
   it as CUDA C, which NVRTC compiles.
3. ``plan`` joins these kernels with those of the forests, of ``hbconv.backends.cuda``.
4. ``artifact`` runs the plan in memory of a device.
"""
