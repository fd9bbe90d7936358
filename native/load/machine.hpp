/// What the machine did meanwhile: whether the generator had it to itself.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.hpp"

namespace penstock::load {

/// "unknown" where the kernel does not tell it.
std::string host_name();

/// Counters since the machine's start, as fields of the document: seconds of all processors together, by what they
/// did; of this process; bytes of memory. What the kernel does not tell is null.
Json machine_counters();

/// Nanoseconds for which the calling thread could have run and had no processor, since it began; −1 where the kernel
/// does not tell.
std::int64_t waited_for_processor_ns();

}  // namespace penstock::load
