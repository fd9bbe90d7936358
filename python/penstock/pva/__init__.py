"""The pvAccess source: frames of EPICS areaDetector to a recorder (docs/how-to/record/record-from-epics.md).

It runs in a process of its own (`python -m penstock.pva`), because p4p brings EPICS's libraries and threads.
"""
