"""Storage systems on this machine, from their packages: up by one command, and down without a trace.

Shape and reasons: docs/explanation/decisions/0051-laboratory.md.
"""
