#include "stream/tcp/window.hpp"

#include <algorithm>
#include <limits>

#include "base/crc32c.hpp"

namespace penstock::stream {
namespace {

constexpr std::size_t idle_heads_max = 256;

}  // namespace

std::vector<std::byte> TcpWindow::take_head() {
  if (idle_heads_.empty()) return {};
  auto head = std::move(idle_heads_.back());
  idle_heads_.pop_back();
  return head;
}

void TcpWindow::push(std::vector<std::byte> head, std::uint64_t number, Bytes payload,
                     std::shared_ptr<const void> owner, std::optional<std::uint32_t> pixels_crc) {
  Kept kept;
  kept.head = std::move(head);
  kept.payload = payload;
  kept.owner = std::move(owner);
  kept.number = number;
  kept.has_crc = pixels_crc.has_value();
  kept.pixels_crc = pixels_crc.value_or(0);
  payload_bytes_ += payload.size();
  unsent_bytes_ += kept.size();
  frames_.push_back(std::move(kept));
}

void TcpWindow::number(Kept& frame) {
  frame.sequence = take_sequence();
  sent_below_ = std::max(sent_below_, frame.number + 1);
  const auto message = Bytes(frame.head).subspan(tcp_header_bytes);
  TcpHeader header;
  header.kind = TcpKind::image;
  header.flags = frame.has_crc ? tcp_flag_pixels_crc : 0;
  header.message_bytes = static_cast<std::uint32_t>(message.size());
  header.pixels_bytes = frame.payload.size();
  header.sequence = frame.sequence;
  header.message_crc = crc32c(message);
  header.pixels_crc = frame.pixels_crc;
  encode_header(header, std::span(frame.head).first<tcp_header_bytes>());
}

std::size_t TcpWindow::gather(std::span<iovec> pieces) {
  std::size_t count = 0;
  auto skip = partial_;
  const auto add = [&](Bytes bytes) {
    const auto skipped = std::min(skip, bytes.size());
    skip -= skipped;
    bytes = bytes.subspan(skipped);
    if (!bytes.empty()) pieces[count++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  for (auto i = next_; i < frames_.size() && count + 2 <= pieces.size(); ++i) {
    if (i == numbered_) number(frames_[numbered_++]);
    add(frames_[i].head);
    add(frames_[i].payload);
  }
  return count;
}

void TcpWindow::sent(std::size_t bytes) {
  unsent_bytes_ -= bytes;
  partial_ += bytes;
  while (next_ < frames_.size() && partial_ >= frames_[next_].size()) {
    partial_ -= frames_[next_].size();
    ++next_;
  }
}

void TcpWindow::rewind(std::uint64_t sequence) {
  sequence_ = sequence;
  next_ = numbered_ = partial_ = 0;
  unsent_bytes_ = 0;
  for (const auto& frame : frames_) unsent_bytes_ += frame.size();
}

void TcpWindow::release(Kept& frame) {
  payload_bytes_ -= frame.payload.size();
  if (idle_heads_.size() < idle_heads_max) idle_heads_.push_back(std::move(frame.head));
}

void TcpWindow::erase(std::size_t index) {
  release(frames_[index]);
  frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(index));
  --next_;
  --numbered_;
}

void TcpWindow::acknowledge(std::uint64_t safe_below, bool everywhere) {
  // What is not wholly sent stays: a message must not be cut short within the stream.
  while (next_ > 0 && frames_.front().number < safe_below) {
    release(frames_.front());
    frames_.pop_front();
    --next_;
    --numbered_;
  }
  if (!everywhere) return;
  for (std::size_t i = next_; i-- > 0;)
    if (frames_[i].number < safe_below) erase(i);
}

bool TcpWindow::drop(std::uint64_t sequence) {
  // Sequence numbers rise along the window.
  const auto end = frames_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::lower_bound(frames_.begin(), end, sequence,
                                      [](const Kept& frame, std::uint64_t wanted) { return frame.sequence < wanted; });
  if (found == end || found->sequence != sequence) return false;
  erase(static_cast<std::size_t>(found - frames_.begin()));
  return true;
}

std::uint64_t TcpWindow::close(std::uint64_t safe_below) {
  std::uint64_t unsafe = 0;
  for (const auto& frame : frames_) unsafe += frame.number >= safe_below ? 1 : 0;
  acknowledge(std::numeric_limits<std::uint64_t>::max(), false);
  const std::size_t kept = partial_ > 0 ? 1 : 0;
  for (; frames_.size() > kept; frames_.pop_back()) {
    unsent_bytes_ -= frames_.back().size();
    release(frames_.back());
  }
  numbered_ = kept;
  return unsafe;
}

void TcpWindow::clear() {
  frames_.clear();
  next_ = numbered_ = partial_ = 0;
  payload_bytes_ = unsent_bytes_ = 0;
  sent_below_ = 0;
}

}  // namespace penstock::stream
