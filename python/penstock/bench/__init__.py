"""Measures storage: makes a folder of its own, runs the load generator in it, judges what came of it."""
