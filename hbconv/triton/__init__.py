"""Model repositories of the Triton Inference Server, and what runs in its python backend."""
