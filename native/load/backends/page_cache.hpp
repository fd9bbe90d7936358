/// What of a file is in this machine's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "load/backends/own_folder.hpp"

namespace penstock::load {

/// Asks the kernel to forget what of the file is on storage too, and counts the bytes that stay, in whole pages.
/// Returns nullopt if the kernel does not report it.
std::optional<std::uint64_t> cached_bytes_after_forgetting(OwnFolder& folder, const std::string& name);

}  // namespace penstock::load
