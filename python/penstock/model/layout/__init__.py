"""Layouts of what is in a file: read from YAML or areaDetector's XML, checked, given to the recorder."""
