"""All that is fuzzed, by name."""

from __future__ import annotations

from fuzz.estimators import ESTIMATORS
from fuzz.files import FILES
from fuzz.hbc import HBC
from fuzz.onnx_models import ONNX
from fuzz.treelite_models import TREELITE

__all__ = ["SUBJECTS"]

SUBJECTS = {subject.name: subject for subject in (HBC, *FILES, ONNX, TREELITE, ESTIMATORS)}
