/// Reads a file's segments as docs/reference/format.md tells a stranger to, with the decoder.
#pragma once

#include <optional>

#include "../support/whole_file.hpp"
#include "base/crc32c.hpp"
#include "store/format/description.hpp"
#include "store/format/segment.hpp"

namespace penstock::store::testing {

struct ScannedChunk {
  format::ChunkRecord record;
  std::vector<std::byte> data;
  bool intact = false;
};

struct Scan {
  std::optional<format::Description> description;
  std::vector<format::SegmentHeader> segments;
  std::vector<ScannedChunk> chunks;
  std::uint64_t damaged_segments = 0;
  std::uint64_t file_bytes = 0;

  const ScannedChunk* find(std::uint64_t index) const {
    for (const auto& chunk : chunks)
      if (chunk.record.chunk_index == index && chunk.intact) return &chunk;
    return nullptr;
  }
};

inline Scan scan(const std::string& path) {
  const auto text = whole_file(path);
  const auto file = as_bytes(text);
  Scan result;
  result.file_bytes = file.size();
  std::optional<format::FileId> id;
  for (std::uint64_t at = 0; at + format::header_size_bytes <= file.size();) {
    const auto header = format::decode_header(file.subspan(at), at);
    if (!header.ok() || (id && header->file_id != *id) || at + header->header_bytes > file.size()) {
      if (format::starts_segment(file.subspan(at))) ++result.damaged_segments;
      at += format::walk_step_bytes;
      continue;
    }
    const auto region = file.subspan(at, header->header_bytes);
    if (header->kind == format::SegmentKind::journal) {
      at += header->segment_bytes;
      continue;
    }
    result.segments.push_back(*header);
    if (header->kind == format::SegmentKind::description) {
      id = header->file_id;
      auto parsed = format::parse_description(format::decode_description(*header, region).value());
      if (parsed.ok()) result.description = std::move(*parsed);
    } else if (header->kind == format::SegmentKind::chunks) {
      const auto records = format::decode_records(*header, region);
      if (!records.ok()) ++result.damaged_segments;
      for (const auto& record : records.ok() ? *records : std::vector<format::ChunkRecord>{}) {
        ScannedChunk chunk{record, {}, false};
        if (at + record.offset + record.size <= file.size()) {
          const auto data = file.subspan(at + record.offset, record.size);
          chunk.data.assign(data.begin(), data.end());
          chunk.intact = crc32c(data) == record.crc;
        }
        result.chunks.push_back(std::move(chunk));
      }
    }
    at += header->segment_bytes;
  }
  return result;
}

}  // namespace penstock::store::testing
