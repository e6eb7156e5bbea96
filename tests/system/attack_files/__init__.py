"""Files with a hostile value in one field: refused by name, or answered, in bounded time and memory.

``fuzz`` damages files at random; here each class and key gets each value that hurts.
"""
