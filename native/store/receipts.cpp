#include "store/receipts.hpp"

#include <algorithm>

namespace penstock::store {
namespace {

constexpr std::size_t fill_bytes = 1 << 20;

/// Copies of the fill value, one behind the other.
std::vector<std::byte> filling(const ChunkedNode& node, std::uint64_t frame_bytes) {
  std::vector<std::byte> filled(std::min<std::uint64_t>(fill_bytes, frame_bytes));
  for (std::size_t at = 0; !node.fill.empty() && at + node.fill.size() <= filled.size(); at += node.fill.size())
    std::copy(node.fill.begin(), node.fill.end(), filled.begin() + static_cast<std::ptrdiff_t>(at));
  return filled;
}

}  // namespace

Result<std::vector<std::uint64_t>> read_receipts(File& file, const ChunkedNode& node) {
  PEN_ASSIGN(const auto file_bytes, file.size());
  if (node.receipts_address > file_bytes || node.frames_max > (file_bytes - node.receipts_address) / receipt_bytes)
    return make_error(Errc::truncated, "the file of {} bytes ends before the {} receipts of {}", file_bytes,
                      node.frames_max, node.path);
  std::vector<std::uint64_t> receipts(node.frames_max);
  const auto bytes = std::as_writable_bytes(std::span(receipts));
  PEN_ASSIGN(const auto count, file.read_at(bytes, node.receipts_address));
  if (count != bytes.size()) return make_error(Errc::truncated, "the receipts of {} became shorter", node.path);
  return receipts;
}

Result<void> write_receipt(File& file, const ChunkedNode& node, std::uint64_t frame, std::uint32_t crc) {
  const auto receipt = receipt_of(crc);
  return write_at(file, std::as_bytes(std::span(&receipt, 1)), node.receipts_address + frame * receipt_bytes);
}

Result<void> fill_gaps(File& file, const ChunkedNode& node, const std::vector<std::uint64_t>& receipts,
                       std::uint64_t end) {
  const auto frame_bytes = node.places.step_bytes;
  const auto filled = filling(node, frame_bytes);
  for (std::uint64_t frame = 0; frame < std::min<std::uint64_t>(end, receipts.size()); ++frame) {
    if (is_receipt(receipts[frame])) continue;
    for (std::uint64_t done = 0; done < frame_bytes; done += filled.size())
      PEN_TRY(write_at(file, Bytes(filled).first(std::min<std::uint64_t>(filled.size(), frame_bytes - done)),
                       node.places.address_of(frame) + done));
  }
  return {};
}

}  // namespace penstock::store
