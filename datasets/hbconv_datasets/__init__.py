"""Tables to train and score models on: bundled data, generated shapes, and downloads on request."""

from hbconv_datasets.dataset import Dataset

__all__ = ["Dataset"]
