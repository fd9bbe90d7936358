"""What the package speaks of, as data: sizes, configuration, plans, events, detectors, findings.

Knows no files, no processes and no terminal; everything else builds on it.
"""
