"""Titles of the groups of options in the helps of commands, in the order in which they are shown."""

SOURCES = "Sources"
DETECTOR = "Detector"
WORKLOAD = "Workload"
ACCESS = "Storage access"
FILES = "Files"
COMPRESSION = "Compression"
RESOURCES = "Memory and threads"
SERIES = "Series life cycle"
FAULTS = "Faults"
BACKGROUND = "Background load"
ASSUMPTIONS = "Assumptions"
BLOCKS = "Building blocks"
COMPARISON = "Comparison"
RUN = "Run"
OUTPUT = "Output"
OTHER = "Options"

ORDER = (
    SOURCES,
    DETECTOR,
    WORKLOAD,
    ACCESS,
    FILES,
    COMPRESSION,
    RESOURCES,
    SERIES,
    FAULTS,
    BACKGROUND,
    ASSUMPTIONS,
    BLOCKS,
    COMPARISON,
    RUN,
    OUTPUT,
    OTHER,
)
