/// Where a file's journal is (journal.hpp): the two pages behind the first one, which is HDF5's superblock's.
#pragma once

#include "base/bytes.hpp"

namespace penstock::store {

constexpr std::uint64_t journal_address = page_bytes;
constexpr std::uint64_t journal_end = 3 * page_bytes;

constexpr bool is_journal_page(std::uint64_t address) { return address >= journal_address && address < journal_end; }

}  // namespace penstock::store
