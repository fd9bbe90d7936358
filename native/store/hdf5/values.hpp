/// Writes values, attributes and links of a layout through HDF5. Only for files in this folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/hdf5/handles.hpp"
#include "store/layout.hpp"

namespace penstock::store::hdf5 {

/// For a dataset or a group that is made (`kind` is H5P_DATASET_CREATE or H5P_GROUP_CREATE). Attributes stay in the
/// object's header however many there are, unless one is too large for it: h5copy of HDF5 1.10 crashes where they lie
/// elsewhere and one of them is a text of variable length.
Result<Handle> creation_properties(hid_t kind);

/// For a link or an attribute that is made (`kind` is H5P_LINK_CREATE or H5P_ATTRIBUTE_CREATE) at `path`: its last name
/// says that it is UTF-8, unless it is ASCII.
Result<Handle> name_properties(hid_t kind, std::string_view path);

/// Creates the group and its parents; one that is there already is kept.
Result<void> make_group(hid_t file, const std::string& path);
/// Creates all parents of `path` as groups.
Result<void> make_parents(hid_t file, const std::string& path);

/// Creates the dataset, in place of one that has its name.
Result<void> write_value(hid_t file, const ValueNode& node);
/// Sets attributes of the object at `path`, in place of those that have their names.
Result<void> write_attributes(hid_t file, const std::string& path, std::span<const Attribute> attributes);
/// A hard link: both names are equal.
Result<void> make_link(hid_t file, const LinkNode& node);
/// The same, in place of what has its name.
Result<void> replace_link(hid_t file, const LinkNode& node);

}  // namespace penstock::store::hdf5
