"""Layouts of what is in a file: read from YAML or from areaDetector's XML, checked, and given to the recorder."""
