#include "codec/framing.hpp"

namespace penstock::codec {
namespace {

struct Header {
  std::uint64_t raw_bytes;
  std::uint32_t block_bytes;
};

Result<Header> read_header(Bytes encoded, std::uint64_t raw_bytes) {
  if (encoded.size() < frame_header_bytes)
    return make_error(Errc::truncated, "chunk of {} bytes is shorter than its header of {}", encoded.size(),
                      frame_header_bytes);
  const Header header{load_be<std::uint64_t>(encoded.data()), load_be<std::uint32_t>(encoded.data() + 8)};
  if (header.raw_bytes != raw_bytes)
    return make_error(Errc::corrupt, "chunk header claims {} raw bytes, expected {}", header.raw_bytes, raw_bytes);
  return header;
}

}  // namespace

BlockPlan bitshuffle_plan(std::uint64_t raw_bytes, std::uint64_t block_bytes, std::size_t element_bytes) {
  BlockPlan plan;
  plan.block_bytes = block_bytes;
  plan.full_blocks = raw_bytes / block_bytes;
  const std::uint64_t rest = raw_bytes % block_bytes;
  plan.leftover_bytes = rest % (8 * element_bytes);
  plan.last_bytes = rest - plan.leftover_bytes;
  return plan;
}

BlockPlan lz4_plan(std::uint64_t raw_bytes, std::uint64_t block_bytes) {
  BlockPlan plan;
  plan.block_bytes = block_bytes;
  plan.full_blocks = raw_bytes / block_bytes;
  plan.last_bytes = raw_bytes % block_bytes;
  return plan;
}

Result<BlockPlan> read_bitshuffle_header(Bytes encoded, std::size_t element_bytes, std::uint64_t raw_bytes) {
  PEN_ASSIGN(const Header header, read_header(encoded, raw_bytes));
  // The filter takes 0 as its default, and so do files of writers that leave the field empty.
  const std::uint64_t block_bytes = header.block_bytes == 0 ? default_block_bytes(element_bytes) : header.block_bytes;
  if (block_bytes % (8 * element_bytes) != 0)
    return make_error(Errc::corrupt,
                      "chunk header's block size of {} bytes is not a multiple of 8 elements of {} bytes", block_bytes,
                      element_bytes);
  return bitshuffle_plan(raw_bytes, block_bytes, element_bytes);
}

Result<BlockPlan> read_lz4_header(Bytes encoded, std::uint64_t raw_bytes) {
  PEN_ASSIGN(const Header header, read_header(encoded, raw_bytes));
  if (header.block_bytes == 0 && raw_bytes != 0)
    return make_error(Errc::corrupt, "chunk header's block size is 0 for {} raw bytes", raw_bytes);
  return header.block_bytes == 0 ? BlockPlan{} : lz4_plan(raw_bytes, header.block_bytes);
}

Result<Bytes> BlockReader::next() {
  const std::size_t left = encoded_.size() - at_;
  if (left < length_bytes)
    return make_error(Errc::truncated, "chunk ends before the length of block {} of {}", block_, plan_.blocks());
  const std::size_t length = load_be<std::uint32_t>(encoded_.data() + at_);
  if (length == 0 || length > left - length_bytes)
    return make_error(Errc::corrupt, "block {} of {} claims {} bytes, but only {} remain", block_, plan_.blocks(),
                      length, left - length_bytes);
  const Bytes block = encoded_.subspan(at_ + length_bytes, length);
  at_ += length_bytes + length;
  ++block_;
  return block;
}

Result<Bytes> BlockReader::leftover() const {
  const std::size_t left = encoded_.size() - at_;
  if (left != plan_.leftover_bytes)
    return make_error(Errc::corrupt, "{} bytes follow the last block, expected {}", left, plan_.leftover_bytes);
  return encoded_.subspan(at_);
}

void write_header(std::byte* to, std::uint64_t raw_bytes, std::uint32_t block_bytes) {
  store_be(to, raw_bytes);
  store_be(to + 8, block_bytes);
}

}  // namespace penstock::codec
