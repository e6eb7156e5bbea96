"""What follows from a graph without running it: intervals of values, and which answers prove their input finite."""
