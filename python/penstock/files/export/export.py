"""A master file beside a recorded one, for readers that know fixed names and one kind of chunk.

`xds`: all that durin and neggia look for, and for viewers the frames as one virtual dataset. `eiger`: frames
as in the files that DECTRIS' file writer makes for EIGER detectors, for HDF5 1.8 on, or all in one dataset.
Both are NXmx and have the names of that file writer beside.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy

from penstock import __version__
from penstock.files.aside import aside, notify, run_aside
from penstock.files.export.frames import Progress, copy_part, mark_fill
from penstock.files.export.plan import DETECTOR, Export, explained
from penstock.files.hdf5 import (
    attribute_of,
    for_mapping,
    item_at,
    lies_elsewhere,
    make_attribute,
    names_of,
    naming,
    open_for_reading,
    set_text,
    value_of,
)
from penstock.files.naming import give_name
from penstock.files.space import require_space
from penstock.files.unfinished import unfinished
from penstock.files.writable import require_writable
from penstock.model.errors import PenstockError, UsageError
from penstock.model.problems import reason_of, unwritten_remedy

_ITEMS_MAX = 10_000
_DEPTH_MAX = 16
_VALUE_BYTES_MAX = 1 << 30
_NOT_COPIED = ("data", "penstock", "metadata")  # of the entry


def write_export(export: Export, overwrite: bool, progress: Progress) -> None:
    """Writes the files of `export.writes`; they get their names when all are whole, the master last.

    Files that are there stay, but for exports where `overwrite` is true. UsageError: a name is taken.
    PenstockError: the storage does not take it, or a frame cannot be read.
    """
    for path in export.writes:
        _require_free(path, overwrite)
    if export.copies:
        # Roughly: frames that are encoded again may need more.
        require_space(Path(export.master).parent, export.recorded_bytes, "the export")
    for folder in {path.absolute().parent for path in export.writes}:
        if folder.is_dir():
            require_writable(folder)
    try:
        with unfinished(export.writes) as new:
            run_aside(Path(export.source), lambda: _write_new(export, new), progress)
            for path in export.writes:
                _name(new[path], path, overwrite)
    except OSError as error:
        raise _not_written(export, error) from error


def _write_new(export: Export, new: dict[Path, Path]) -> None:
    """Writes the files under temporary names until they are complete; reports the number of copied frames."""
    folder = Path(export.master).parent
    try:
        with explained(Path(export.source)):
            if export.copies:
                for part in export.parts:
                    copy_part(export, part, new[folder / part.file], notify)
            _write_master(export, new[Path(export.master)])
    except OSError as error:
        raise _not_written(export, error) from error


def _not_written(export: Export, error: OSError) -> PenstockError:
    return PenstockError(
        f"{export.master} cannot be written: {reason_of(error)}",
        unwritten_remedy(error, "name another file with --output"),
    )


def _require_free(path: Path, overwrite: bool) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise UsageError(
            f"{path} exists already and is not overwritten",
            "replace the export with --overwrite, or name a new file with --output",
        )
    try:
        is_export = _is_export(path)
    except PenstockError:
        is_export = False
    if not is_export:
        raise UsageError(
            f"{path} is not an export and is not replaced", "name another --output, or move the file away"
        )


@aside
def _is_export(path: Path) -> bool:
    with open_for_reading(path) as file:
        return attribute_of(file, "penstock_export") is not None


def _name(new: Path, path: Path, overwrite: bool) -> None:
    if overwrite:
        new.replace(path)
        return
    try:
        give_name(new, path)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists already: another command has just written it", "name a new file with --output"
        ) from error


def _write_master(export: Export, path: Path) -> None:
    old = export.reader == "eiger" and not export.single  # virtual datasets are of HDF5 1.10
    versions = ("earliest", "v108") if old else ("v110", "v110")
    with open_for_reading(Path(export.source)) as source, h5py.File(path, "x", libver=versions) as master:
        set_text(master, "NX_class", "NXroot")
        set_text(master, "default", "entry")
        set_text(master, "creator", "penstock")
        set_text(master, "creator_version", __version__)
        set_text(master, "penstock_export", export.reader)
        set_text(master, "penstock_source", Path(export.source).name)
        _Copy(export).group(source["entry"], master.create_group("entry"), _NOT_COPIED)
        _add_frames(export, master.create_group("/entry/data"), source[export.dataset].fillvalue)
        _add_specific(export, master[DETECTOR])
        _add_eiger_names(export, master)


class _Copy:
    """Copies what is small: links are followed, frames left out. Bounded: a file may be made endless."""

    def __init__(self, export: Export) -> None:
        self.frame = (export.rows, export.columns)
        self.recorded_frames = export.recorded_frames
        self.stretch = slice(export.first_frame, export.first_frame + export.frames)
        self.items = 0

    def group(
        self, source: h5py.Group, into: h5py.Group, leave_out: tuple[str, ...] = (), depth: int = 0
    ) -> None:
        _copy_attributes(source, into.id)
        for name in names_of(source):
            item = item_at(source, name)
            self.items += 1
            if name in leave_out or item is None:
                continue
            if self.items > _ITEMS_MAX or depth > _DEPTH_MAX:
                raise PenstockError(
                    f"{source.file.filename} has more than {_ITEMS_MAX} items, or over {_DEPTH_MAX} levels",
                    "export a file that Penstock recorded",
                )
            if isinstance(item, h5py.Group):
                self.group(item, into.create_group(name), depth=depth + 1)
            elif isinstance(item, h5py.Dataset) and not self._is_frames(item):
                _copy_dataset(item, into, name, self._rows_of(item, source))

    def _rows_of(self, item: h5py.Dataset, parent: h5py.Group) -> slice:
        """Returns the rows to copy: of an axis or a column with rows for frames, those of the exported."""
        is_axis = attribute_of(parent, "NX_class") == "NXtransformations"
        is_column = bool(item.shape) and item.maxshape[0] is None  # it grew with the frames
        per_frame = (is_axis or is_column) and item.shape[:1] == (self.recorded_frames,)
        return self.stretch if per_frame and self.recorded_frames > 1 else slice(None)

    def _is_frames(self, item: h5py.Dataset) -> bool:
        return bool(item.is_virtual or (item.ndim >= 3 and item.shape[-2:] == self.frame))


def _copy_dataset(item: h5py.Dataset, into: h5py.Group, name: str, rows: slice) -> None:
    """In its own type, but without chunks: neggia reads no others, and HDF5 1.8 not those of 1.10."""
    if lies_elsewhere(item) or item.shape is None or item.nbytes > _VALUE_BYTES_MAX:
        return
    values = numpy.empty(item.shape, dtype=item.dtype)
    item.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values)
    if rows != slice(None):
        values = numpy.ascontiguousarray(values[rows])
    # Without chunks it cannot grow either, as columns of a recorded file may.
    space = h5py.h5s.create_simple(values.shape) if values.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    copy = h5py.h5d.create(into.id, name.encode(), item.id.get_type(), space, lcpl=naming(name))
    copy.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    _copy_attributes(item, copy)


def _copy_attributes(item: h5py.Group | h5py.Dataset, into: h5py.h5g.GroupID | h5py.h5d.DatasetID) -> None:
    for name in item.attrs:
        if isinstance(name, str):  # h5py gives one that is not UTF-8 as bytes
            _copy_attribute(h5py.h5a.open(item.id, name.encode()), into, name)


def _copy_attribute(
    attribute: h5py.h5a.AttrID, into: h5py.h5g.GroupID | h5py.h5d.DatasetID, name: str
) -> None:
    copy = make_attribute(into, name, attribute.get_type(), attribute.get_space())
    values = numpy.empty(attribute.shape, dtype=attribute.dtype)
    attribute.read(values)
    copy.write(values)


def _add_frames(export: Export, data: h5py.Group, fill: Any) -> None:
    """Links data_000001, …; with them, but in files for HDF5 1.8, all frames in one virtual dataset.

    What fabio and bluesky's EigerHandler find here under a name that begins with "data" they take one after
    the other: so links and a virtual dataset "data" never stand together.
    """
    set_text(data, "NX_class", "NXdata")
    for part in [] if export.single else export.parts:
        data[part.name] = h5py.ExternalLink(part.file, part.dataset)
    if export.reader == "eiger" and not export.single:
        if len(export.parts) == 1:
            set_text(data, "signal", export.parts[0].name)
            set_text(data.parent, "default", "data")
        return
    shape = (export.frames, export.rows, export.columns)
    layout = h5py.VirtualLayout(shape=shape, dtype=numpy.dtype(export.type))
    for part in export.parts:
        stretch = slice(part.first_frame, part.first_frame + part.frames)
        layout[stretch] = h5py.VirtualSource(
            for_mapping(part.file), for_mapping(part.dataset), shape=(part.frames, *shape[1:])
        )
    name = "data" if export.single else "images"
    mark_fill(data.create_virtual_dataset(name, layout, fillvalue=fill))
    set_text(data, "signal", name)
    set_text(data.parent, "default", "data")


def _add_specific(export: Export, detector: h5py.Group) -> None:
    """What neggia has fixed paths for. Without chunks, as it reads nothing else but frames."""
    specific = _collection(detector, "detectorSpecific")
    _put(specific, "nimages", numpy.uint32(export.frames))
    _put(specific, "ntrigger", numpy.uint32(1))
    _put(specific, "x_pixels_in_detector", numpy.uint32(export.columns))
    _put(specific, "y_pixels_in_detector", numpy.uint32(export.rows))
    shape = (export.rows, export.columns)
    mask = item_at(detector, "pixel_mask")
    reported = isinstance(mask, h5py.Dataset) and mask.shape == shape and mask.dtype.kind in "ui"
    if reported and mask.dtype == numpy.uint32 and mask.chunks is None:
        _put(specific, "pixel_mask", mask)
        return
    values = mask[...].astype(numpy.uint32) if reported else numpy.zeros(shape, numpy.uint32)
    _put(specific, "pixel_mask", values)


def _collection(group: h5py.Group, name: str) -> h5py.Group:
    """The group of that name, which a layout may have made already."""
    if not isinstance(item_at(group, name), h5py.Group):
        if name in group:
            del group[name]
        set_text(group.create_group(name), "NX_class", "NXcollection")
    return group[name]


def _put(group: h5py.Group, name: str, value: Any) -> None:
    """Readers take it for what it is here, whatever a layout has put there."""
    if name in group:
        del group[name]
    group[name] = value


def _add_eiger_names(export: Export, master: h5py.File) -> None:
    """Further names of the same values, in whatever order programs look for them.

    Not eiger_fw_version: with it DIALS refuses all but EIGER's sizes.
    """
    detector = master[DETECTOR]
    specific = detector["detectorSpecific"]
    for name, other in (("distance", "detector_distance"), ("serial_number", "detector_number")):
        if name in detector:
            _put(detector, other, detector[name])
    bits = 8 * numpy.dtype(export.type).itemsize
    for name in ("bit_depth_image", "bit_depth_readout"):  # DIALS takes the two highest values for flags
        _put(detector, name, numpy.uint32(bits))
    if "underload_value" not in detector:
        _put(detector, "underload_value", numpy.int64(0))
    saturation = value_of(detector, "saturation_value")
    if isinstance(saturation, int) and saturation >= 0:
        cutoff = numpy.uint32(min(saturation, 0xFFFFFFFF))
        _put(specific, "countrate_correction_count_cutoff", cutoff)
    energy = item_at(master, "/entry/instrument/beam/incident_energy")
    if isinstance(energy, h5py.Dataset):
        _put(specific, "photon_energy", energy)
    for group, axes in (("/entry/sample", ("chi", "kappa", "omega", "phi")), (DETECTOR, ("two_theta",))):
        _add_goniometer(export, master[group], axes)


def _add_goniometer(export: Export, group: h5py.Group, axes: tuple[str, ...]) -> None:
    transformations = item_at(group, "transformations")
    known = [axis for axis in axes if isinstance(transformations, h5py.Group) and axis in transformations]
    if not known:
        return
    goniometer = _collection(group, "goniometer")
    for axis in known:
        _put(goniometer, axis, transformations[axis])
        if f"{axis}_end" in transformations:
            _put(goniometer, f"{axis}_end", transformations[f"{axis}_end"])
        increment = value_of(transformations, f"{axis}_increment_set")
        if not isinstance(increment, float):
            continue
        for name, angle in (
            ("increment", increment),
            ("range_average", increment),
            ("range_total", increment * export.frames),
        ):
            _put(goniometer, f"{axis}_{name}", angle)
            set_text(goniometer[f"{axis}_{name}"], "units", "degree")
