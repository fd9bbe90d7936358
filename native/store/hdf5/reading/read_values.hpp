/// Reads attributes and small datasets into `Value`s.
#pragma once

#include <hdf5.h>

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "store/layout.hpp"

namespace penstock::store::hdf5 {

/// The element type of an HDF5 type; nullopt unless it is a little-endian number of 1, 2, 4 or 8 bytes.
std::optional<ElementType> element_type_of_hdf5(hid_t type);

/// All attributes of an object that are numbers or text; others, and those above 16 MiB, are left out.
std::vector<Attribute> read_attributes(hid_t object);

/// The whole value of a dataset of numbers or of text. `unsupported` for other types.
Result<Value> read_value(hid_t dataset, std::uint64_t bytes_max);

/// The first rows of a dataset of numbers of one dimension; `rows` is within its extent.
Result<Value> read_rows(hid_t dataset, std::uint64_t rows, std::uint64_t bytes_max);

}  // namespace penstock::store::hdf5
