"""Programs on CUDA devices: the algorithms of the tile compiler, with one thread per row.

1. ``stages`` cuts a program at its forests.
2. ``row_function`` writes each part between them as TIR, by the emitters of the tile compiler.
3. ``source`` prints that as CUDA C, which NVRTC compiles.
4. ``plan`` joins these kernels with those of the forests, of ``hbconv.backends.cuda``.
5. ``artifact`` runs the plan in memory of a device.
"""
