"""What a series brings, by the place that it has in Penstock's own tree.

The recorder makes that tree (docs/reference/file.md) and then moves its objects to where a layout wants them.
Entries that stand below /entry/penstock stay there: a layout gives them a further name.
"""

from dataclasses import dataclass

KEPT = "/entry/penstock"
KEPT_METADATA = f"{KEPT}/metadata"
FRAMES = "/entry/data/data"
# Where all frames are in a file whose frames choose among several datasets, and what says which they chose.
ALL_FRAMES = f"{KEPT}/frames/data"
DESTINATIONS = (ALL_FRAMES, f"{KEPT}/frames/destination", f"{KEPT}/frames/destinations")
_DETECTOR = "/entry/instrument/detector"


@dataclass(frozen=True)
class Item:
    """A dataset that a layout can place as `series: NAME`."""

    path: str
    what: str

    @property
    def is_kept(self) -> bool:
        """Whether it stays where it is, and gets another name."""
        return self.path.startswith(KEPT + "/")


# In the order in which they are drawn.
ITEMS: dict[str, Item] = {
    "title": Item("/entry/title", "text; the series' unique id if not sent"),
    "experiment_identifier": Item("/entry/experiment_identifier", "text; only if it is set"),
    "user_name": Item("/entry/user/name", "text; only if it is set"),
    "arm_date": Item("/entry/start_time", "when the detector was armed, ISO 8601"),
    "end_time_estimated": Item("/entry/end_time_estimated", "by frames and frame time; else the start"),
    "end_time": Item("/entry/end_time", "when the last frame came; not there before the file is complete"),
    "source_name": Item("/entry/source/name", 'text; "unknown" if not sent'),
    "source_type": Item("/entry/source/type", "text"),
    "instrument_name": Item("/entry/instrument/name", 'text; "unknown" if not sent'),
    "incident_wavelength": Item("/entry/instrument/beam/incident_wavelength", "Å"),
    "incident_energy": Item("/entry/instrument/beam/incident_energy", "eV"),
    "detector_description": Item(f"{_DETECTOR}/description", "text"),
    "detector_serial_number": Item(f"{_DETECTOR}/serial_number", "text"),
    "sensor_material": Item(f"{_DETECTOR}/sensor_material", 'text; "unknown" if not sent'),
    "sensor_thickness": Item(f"{_DETECTOR}/sensor_thickness", "m"),
    "pixel_size_x": Item(f"{_DETECTOR}/x_pixel_size", "m"),
    "pixel_size_y": Item(f"{_DETECTOR}/y_pixel_size", "m"),
    "beam_center_x": Item(f"{_DETECTOR}/beam_center_x", "pixels"),
    "beam_center_y": Item(f"{_DETECTOR}/beam_center_y", "pixels"),
    "detector_distance": Item(f"{_DETECTOR}/distance", "m"),
    "count_time": Item(f"{_DETECTOR}/count_time", "s"),
    "frame_time": Item(f"{_DETECTOR}/frame_time", "s"),
    "saturation_value": Item(f"{_DETECTOR}/saturation_value", "counts"),
    "underload_value": Item(f"{_DETECTOR}/underload_value", "counts"),
    "bit_depth_readout": Item(f"{_DETECTOR}/bit_depth_readout", "bits a pixel"),
    "threshold_energy": Item(f"{_DETECTOR}/threshold_energy", "eV, of the first channel"),
    "countrate_correction_enabled": Item(f"{_DETECTOR}/countrate_correction_applied", "truth value"),
    "flatfield_enabled": Item(f"{_DETECTOR}/flatfield_applied", "truth value"),
    "pixel_mask_enabled": Item(f"{_DETECTOR}/pixel_mask_applied", "truth value"),
    "virtual_pixel_interpolation_enabled": Item(
        f"{_DETECTOR}/virtual_pixel_interpolation_applied", "truth value"
    ),
    "pixel_mask": Item(f"{_DETECTOR}/pixel_mask", "of the first channel"),
    "flatfield": Item(f"{_DETECTOR}/flatfield", "of the first channel"),
    "countrate_correction_lookup_table": Item(f"{_DETECTOR}/countrate_correction_lookup_table", "table"),
    "detector_depends_on": Item(f"{_DETECTOR}/depends_on", "where its chain of transformations begins"),
    "sample_name": Item("/entry/sample/name", 'text; "unknown" if not sent'),
    "sample_depends_on": Item("/entry/sample/depends_on", "where its chain of transformations begins"),
    "series_id": Item(f"{KEPT}/series_id", "number"),
    "series_unique_id": Item(f"{KEPT}/series_unique_id", "text"),
    "number_of_images": Item(f"{KEPT}/frames_announced", "0: open-ended"),
    "channels": Item(f"{KEPT}/channels", "their names"),
    "detector_translation": Item(f"{KEPT}/detector_translation", "m, three numbers"),
    "user_data": Item(f"{KEPT}/user_data", "JSON text"),
    "frame_state": Item(f"{KEPT}/frame_state", "the frame ledger: one number per frame"),
    "scan_place": Item(f"{KEPT}/place", "point of a scan: one number per frame"),
    "exposure_start": Item(f"{KEPT}/timing/exposure_start", "ns since the arm date, one a frame"),
    "exposure_stop": Item(f"{KEPT}/timing/exposure_stop", "ns since the arm date, one a frame"),
    "exposure_real": Item(f"{KEPT}/timing/exposure_real", "ns, one a frame"),
    "received": Item(f"{KEPT}/timing/received", "ns since 1970, one a frame"),
    "encoded": Item(f"{KEPT}/timing/encoded", "ns since 1970, one a frame"),
    "written": Item(f"{KEPT}/timing/written", "ns since 1970, one a frame"),
}

# A layout can take them over as `nxmx: PATH`, with attributes and all below that it names nowhere else.
GROUPS: dict[str, str] = {
    "/entry": "the whole tree",
    "/entry/user": "NXuser",
    "/entry/source": "NXsource",
    "/entry/instrument": "NXinstrument, with beam and detector",
    "/entry/instrument/beam": "NXbeam",
    _DETECTOR: "NXdetector: its fields, masks, geometry",
    f"{_DETECTOR}/module": "NXdetector_module: where the pixels are",
    f"{_DETECTOR}/transformations": "NXtransformations: axes that carry the detector",
    "/entry/sample": "NXsample: its name and axes",
    "/entry/sample/transformations": "NXtransformations: axes that carry the sample",
    "/entry/data": "NXdata: frames, and the axes of a scan",
}

# What groups hold beside: it goes where they go, and has no name for `series`.
UNNAMED = {
    "/entry/definition": '"NXmx"',
    f"{_DETECTOR}/data": "→ the frames",
    f"{_DETECTOR}/detector_distance": "→ distance",
    f"{_DETECTOR}/detectorSpecific": "NXcollection: what programs for EIGER files ask for",
    f"{_DETECTOR}/detectorSpecific/x_pixels_in_detector": "columns",
    f"{_DETECTOR}/detectorSpecific/y_pixels_in_detector": "rows",
    f"{_DETECTOR}/detectorSpecific/photon_energy": "eV",
    f"{_DETECTOR}/detectorSpecific/countrate_correction_count_cutoff": "counts",
    f"{_DETECTOR}/module/data_origin": "[0, 0]",
    f"{_DETECTOR}/module/data_size": "rows and columns",
    f"{_DETECTOR}/module/module_offset": "from the beam's place to the first pixel",
    f"{_DETECTOR}/module/fast_pixel_direction": "along a row",
    f"{_DETECTOR}/module/slow_pixel_direction": "along a column",
    f"{_DETECTOR}/transformations/translation": "from the sample to the detector",
    f"{_DETECTOR}/transformations/AXIS": "angles of each axis that carries the detector",
    "/entry/sample/transformations/AXIS": "angles of each axis that carries the sample",
    "/entry/data/title": "as /entry/title",
    "/entry/data/AXIS": "values along each axis of a scan; else along the frames: angle or time",
}

# What areaDetector has of each frame without an attribute for it.
VIRTUAL_VALUES = {
    "NDArrayUniqueId": "the frame's number",
    "NDArrayTimeStamp": "seconds since 1990 at which the frame had come",
    "NDArrayEpicsTSSec": "whole seconds since 1990 at which the frame had come",
    "NDArrayEpicsTSnSec": "nanoseconds beside them",
}


def is_below(path: str, group: str) -> bool:
    """Whether `path` is in the group, at any depth."""
    return path.startswith("/") if group == "/" else path.startswith(group + "/")
