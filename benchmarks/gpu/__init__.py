"""One program that asks a CUDA device all that is not known yet, within the time there is.

    python -m benchmarks.gpu --json FILE [--parts a,b] [--budget SECONDS] [--models FOLDER]
        [--write docs/gpu.md]
    python -m benchmarks.gpu --environment
    python -m benchmarks.gpu --prepare FOLDER

Its parts run in the order of what is least known. Each is a process of its own, which is killed
with all that it started when its time is over. Results are in the file as soon as they are known,
and a second call with the same file does what is not done. ``--prepare`` fits the models on any
machine, for time on a device is dear.

``runner`` and ``processes`` know nothing of devices, ``parts/`` nothing of limits. A ``Place`` is a
device, or in a rehearsal the CPU with tiny sizes: all parts run there with each change.
"""
