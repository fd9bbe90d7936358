"""Finds the native programs, runs them and reads their events."""
