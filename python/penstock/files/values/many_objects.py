"""Groups, datasets and attributes by the lower half of h5py: thousands of them take half the time."""

from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5g, h5p, h5s, h5t

from penstock.files.hdf5 import naming

_TEXT_DTYPE = h5py.string_dtype()
_TEXT = h5t.py_create(_TEXT_DTYPE, logical=True)


def add_group(parent: h5g.GroupID, name: str, **attributes: str | int) -> h5g.GroupID:
    group = h5g.create(parent, name.encode(), naming(name))
    _add_attributes(group, attributes)
    return group


def add_dataset(parent: h5g.GroupID, name: str, values: npt.NDArray[Any], **attributes: str | int) -> None:
    """Texts (dtype S) are UTF-8."""
    if values.dtype.kind == "S":
        values = values.astype(h5py.string_dtype("utf-8", max(1, values.dtype.itemsize)))
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    kind = h5t.py_create(values.dtype, logical=True)
    space = h5s.create_simple(values.shape)
    dataset = h5d.create(parent, name.encode(), kind, space, properties, naming(name))
    dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))
    _add_attributes(dataset, attributes)


def _add_attributes(to: h5g.GroupID | h5d.DatasetID, attributes: dict[str, str | int]) -> None:
    space = h5s.create(h5s.SCALAR)
    for name, value in attributes.items():
        if isinstance(value, str):
            h5a.create(to, name.encode(), _TEXT, space).write(np.array(value, dtype=_TEXT_DTYPE))
        else:
            h5a.create(to, name.encode(), h5t.NATIVE_INT64, space).write(np.array(value, dtype=np.int64))
