"""The server: models behind HTTP and gRPC.

``processes/supervisor.py`` starts it all: processes (``processes/``) take bytes (``http/``) of
requests (``protocol/``) to where ``routes.py`` says. The rule of this floor: rows become one batch
of a model. A model is called by its public methods alone, and nothing compiles after the warm-up.
"""
