"""Kernels of texts: from the bytes of documents to the entries of sparse rows."""
