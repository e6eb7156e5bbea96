"""Protocols: records (v1), tensors (v2, over HTTP and gRPC), and documents of the server.

The rule of this room: a request of any form becomes rows, and outputs become its response.
"""
