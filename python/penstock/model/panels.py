"""Titles of the groups of options in the helps of commands, in the order in which they are shown."""

SOURCES = "Sources"
CONNECTION = "Connection"
DETECTOR = "Detector"
WORKLOAD = "Workload"
ACCESS = "Storage access"
FILES = "Files"
COMPRESSION = "Compression"
RESOURCES = "Memory and threads"
SERIES = "Series life cycle"
FAULTS = "Faults"
BACKGROUND = "Background load"
FRAMES = "Frames and pixels"
COLOURS = "Colours"
ASSUMPTIONS = "Assumptions"
BLOCKS = "Building blocks"
COMPARISON = "Comparison"
VALUES = "Matching of values"
SELECTION = "Selection"
RUN = "Run"
OUTPUT = "Output"
OTHER = "Options"

LABORATORY = "Servers, clients and their limits"
ORDER = (
    LABORATORY,
    SOURCES,
    CONNECTION,
    DETECTOR,
    WORKLOAD,
    ACCESS,
    FILES,
    COMPRESSION,
    RESOURCES,
    SERIES,
    FAULTS,
    BACKGROUND,
    FRAMES,
    COLOURS,
    ASSUMPTIONS,
    BLOCKS,
    COMPARISON,
    VALUES,
    SELECTION,
    RUN,
    OUTPUT,
    OTHER,
)
