/// Messages between the stores of one file, as bytes. Between processes of one build on machines of
/// one kind: numbers stand in the machine's own order. Decoding checks every length all the same.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "store/store.hpp"

namespace penstock::store::share {

/// To the lead: these chunks are on storage; they want to be in the index.
struct Placed {
  std::uint64_t id = 0;  ///< comes back in Indexed
  std::vector<PlacedChunk> chunks;
};

/// To the lead: rows of a column.
struct Rows {
  ColumnId column{};
  RowRun run;
  std::vector<std::byte> data;
};

/// To the lead: this rank writes nothing more; its part of the file ends there.
struct Left {
  std::uint64_t end = 0;
};

/// From the lead: what became of a Placed.
struct Indexed {
  std::uint64_t id = 0;
  std::vector<std::uint32_t> refused;  ///< positions of chunks that were there already
  std::optional<Error> failure;        ///< then none of them is in the index
};

using Message = std::variant<Placed, Rows, Left, Indexed>;

std::vector<std::byte> encode(std::uint64_t id, std::span<const PlacedChunk> chunks);
std::vector<std::byte> encode(ColumnId column, RowRun run, Bytes data);
std::vector<std::byte> encode(const Left& left);
std::vector<std::byte> encode(const Indexed& indexed);

/// `malformed` where the bytes are none of these.
Result<Message> decode(Bytes message);

}  // namespace penstock::store::share
