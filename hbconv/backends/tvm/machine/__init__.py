"""What kernels are compiled for: the machine, and the schedule that suits it."""
