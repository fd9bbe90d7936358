/// What the machine did meanwhile: whether the generator had it to itself.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.hpp"

namespace penstock::load {

/// "unknown" if the kernel does not report it.
std::string host_name();

/// Counters since the machine's start, as fields of the document: seconds of all processors together, by what they
/// did; of this process; bytes of memory. What the kernel does not report is null.
Json machine_counters();

/// Nanoseconds for which the calling thread could have run and had no processor, since it began; −1 where the kernel
/// does not report it.
std::int64_t waited_for_processor_ns();
/// The most of that among this process's threads of these names; nothing where there is none.
std::optional<std::int64_t> longest_wait_ns(std::initializer_list<std::string_view> names);

}  // namespace penstock::load
