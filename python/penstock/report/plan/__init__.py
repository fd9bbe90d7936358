"""Detectors and capacity plans, as tables."""
