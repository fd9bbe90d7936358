#include "store/share/messages.hpp"

#include <cstring>

namespace penstock::store::share {
namespace {

enum class Kind : std::uint8_t { placed = 1, rows, left, indexed };

/// Of a chunk; what the lead does not need stays with the rank that wrote it.
struct PackedChunk {
  std::uint64_t index;
  std::uint64_t address;
  std::uint32_t size;
  std::uint32_t filter_mask;
  std::uint32_t dataset;
  std::uint32_t crc;
  std::uint32_t frame;
  std::uint32_t zero = 0;
};

class Writer {
 public:
  Writer(Kind kind, std::size_t expected) {
    bytes_.reserve(expected + 1);
    put(kind);
  }
  template <typename T>
  void put(const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  template <typename T>
  Result<T> get() {
    T value;
    if (rest_.size() < sizeof value)
      return make_error(Errc::malformed, "a message between ranks ends {} bytes early", sizeof value - rest_.size());
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  /// A count of things of `bytes_each` that the rest of the message must have room for.
  Result<std::uint32_t> count(std::size_t bytes_each) {
    PEN_ASSIGN(const auto count, get<std::uint32_t>());
    if (rest_.size() / bytes_each < count)
      return make_error(Errc::malformed, "a message between ranks announces {} items but has {} bytes", count,
                        rest_.size());
    return count;
  }
  Bytes rest() const { return rest_; }

 private:
  Bytes rest_;
};

Result<Message> decode_placed(Reader& reader) {
  Placed placed;
  PEN_ASSIGN(placed.id, reader.get<std::uint64_t>());
  PEN_ASSIGN(const auto count, reader.count(sizeof(PackedChunk)));
  placed.chunks.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    PEN_ASSIGN(const auto packed, reader.get<PackedChunk>());
    PlacedChunk chunk;
    chunk.head.dataset = static_cast<DatasetId>(packed.dataset);
    chunk.head.index = packed.index;
    chunk.head.filter_mask = packed.filter_mask;
    chunk.address = packed.address;
    chunk.size = packed.size;
    chunk.crc = packed.crc;
    chunk.head.frame = packed.frame;
    placed.chunks.push_back(chunk);
  }
  return Message(std::move(placed));
}

Result<Message> decode_indexed(Reader& reader) {
  Indexed indexed;
  PEN_ASSIGN(indexed.id, reader.get<std::uint64_t>());
  PEN_ASSIGN(const auto code, reader.get<std::int32_t>());
  PEN_ASSIGN(const auto refused, reader.count(sizeof(std::uint32_t)));
  for (std::uint32_t i = 0; i < refused; ++i) {
    PEN_ASSIGN(const auto position, reader.get<std::uint32_t>());
    indexed.refused.push_back(position);
  }
  if (code != 0) {
    const auto rest = reader.rest();
    indexed.failure.emplace(static_cast<Errc>(code),
                            std::string(reinterpret_cast<const char*>(rest.data()), rest.size()));
  }
  return Message(std::move(indexed));
}

}  // namespace

std::vector<std::byte> encode(std::uint64_t id, std::span<const PlacedChunk> chunks) {
  Writer writer(Kind::placed, 16 + chunks.size() * sizeof(PackedChunk));
  writer.put(id);
  writer.put(static_cast<std::uint32_t>(chunks.size()));
  for (const auto& chunk : chunks)
    writer.put(PackedChunk{chunk.head.index, chunk.address, chunk.size, chunk.head.filter_mask,
                           static_cast<std::uint32_t>(chunk.head.dataset), chunk.crc, chunk.head.frame});
  return writer.take();
}

std::vector<std::byte> encode(ColumnId column, RowRun run, Bytes data) {
  Writer writer(Kind::rows, 24 + data.size());
  writer.put(column);
  writer.put(run.first);
  writer.put(run.stride);
  writer.append(data);
  return writer.take();
}

std::vector<std::byte> encode(const Left& left) {
  Writer writer(Kind::left, sizeof left.end);
  writer.put(left.end);
  return writer.take();
}

std::vector<std::byte> encode(const Indexed& indexed) {
  Writer writer(Kind::indexed, 64);
  writer.put(indexed.id);
  writer.put(static_cast<std::int32_t>(indexed.failure ? static_cast<int>(indexed.failure->code()) : 0));
  writer.put(static_cast<std::uint32_t>(indexed.refused.size()));
  for (const auto position : indexed.refused) writer.put(position);
  if (indexed.failure) writer.append(std::as_bytes(std::span(indexed.failure->message())));
  return writer.take();
}

Result<Message> decode(Bytes message) {
  Reader reader(message);
  PEN_ASSIGN(const auto kind, reader.get<Kind>());
  switch (kind) {
    case Kind::placed: return decode_placed(reader);
    case Kind::rows: {
      Rows rows;
      PEN_ASSIGN(rows.column, reader.get<ColumnId>());
      PEN_ASSIGN(rows.run.first, reader.get<std::uint64_t>());
      PEN_ASSIGN(rows.run.stride, reader.get<std::uint64_t>());
      rows.data.assign(reader.rest().begin(), reader.rest().end());
      return Message(std::move(rows));
    }
    case Kind::left: {
      Left left;
      PEN_ASSIGN(left.end, reader.get<std::uint64_t>());
      return Message(left);
    }
    case Kind::indexed: return decode_indexed(reader);
  }
  return make_error(Errc::malformed, "a message between ranks of kind {}", static_cast<int>(kind));
}

}  // namespace penstock::store::share
