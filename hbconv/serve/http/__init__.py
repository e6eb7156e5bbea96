"""HTTP/1.1 over httptools: bytes become heads and bodies, and each exchange sends one response.

The rule of this room: it judges a request by its head, and knows nothing of models.
"""
