"""Read ONNX files: operators of ``ai.onnx.ml``, and those that exporters write around them.

A file of a theme registers its operators with ``@operator``; ``graph`` walks the file.
"""
