"""Trees as flat arrays: what every parser makes, every backend reads, and numpy computes."""
