"""The runtime: from the user's rows to the inputs of a program, and from its values to answers."""
