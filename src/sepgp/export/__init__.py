"""Fitted models as graphs of ONNX, which predict without torch and without sepgp."""
