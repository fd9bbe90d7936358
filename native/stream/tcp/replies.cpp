#include "stream/tcp/replies.hpp"

#include "base/threads.hpp"
#include "base/time/clock.hpp"

namespace penstock::stream {
namespace {

using namespace std::chrono_literals;

/// Between two batches, so that acknowledgements of a fast stream go out together.
constexpr auto pause_between_batches = 1ms;
constexpr auto send_timeout = 200ms;
constexpr std::int64_t close_timeout_ns = 1'000'000'000;

}  // namespace

TcpReplies::TcpReplies(std::shared_ptr<Socket> socket) : socket_(std::move(socket)) {
  socket_->set_send_timeout(send_timeout);
  thread_ = std::thread([this] {
    begin_thread("pen-reply", Role::receive);
    run();
  });
}

TcpReplies::~TcpReplies() { close(); }

void TcpReplies::send(TcpKind kind, const TcpControl& control) {
  {
    MutexLock lock(mutex_);
    if (closing_ || (kind == TcpKind::error && messages_.size() >= messages_max)) return;
    const auto is_older = [&](const auto& each) {
      return each.first == TcpKind::closed && each.second.series_unique_id == control.series_unique_id;
    };
    if (kind == TcpKind::closed) std::erase_if(messages_, is_older);
    messages_.emplace_back(kind, control);
  }
  wake_.notify_one();
}

void TcpReplies::ack(const std::string& series_unique_id, std::uint64_t safe_below) {
  {
    MutexLock lock(mutex_);
    if (closing_) return;
    auto& held = acks_[series_unique_id];
    held = std::max(held, safe_below);
  }
  wake_.notify_one();
}

void TcpReplies::error(std::uint64_t sequence, const Error& error) {
  TcpControl control;
  control.sequence = sequence;
  control.code = name(error.code());
  control.text = error.message();
  send(TcpKind::error, control);
}

void TcpReplies::close() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::byte> TcpReplies::take() {
  std::vector<std::byte> bytes;
  const auto append = [&](TcpKind kind, const TcpControl& control) {
    const auto message = encode_control(kind, sequence_++, control);
    bytes.insert(bytes.end(), message.begin(), message.end());
  };
  // Acknowledgements first: `closed` is the last word on a series.
  for (const auto& [series_unique_id, safe_below] : acks_) {
    TcpControl control;
    control.series_unique_id = series_unique_id;
    control.safe_below = safe_below;
    append(TcpKind::ack, control);
  }
  for (const auto& [kind, control] : messages_) append(kind, control);
  acks_.clear();
  messages_.clear();
  return bytes;
}

bool TcpReplies::send_bytes(Bytes bytes) {
  std::int64_t give_up_ns = 0;
  while (!bytes.empty()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto sent = socket_->send_some(std::span(&piece, 1));
    if (!sent.ok()) return false;
    bytes = bytes.subspan(*sent);
    MutexLock lock(mutex_);
    if (!closing_) continue;
    if (give_up_ns == 0) give_up_ns = monotonic_ns() + close_timeout_ns;
    if (monotonic_ns() > give_up_ns) return false;
  }
  return true;
}

void TcpReplies::run() {
  MutexLock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&]() PEN_REQUIRES(mutex_) { return closing_ || !messages_.empty() || !acks_.empty(); });
    const auto bytes = take();
    if (bytes.empty() && closing_) return;
    lock.unlock();
    const bool connected = send_bytes(bytes);
    lock.lock();
    if (!connected) closing_ = true;
    if (closing_ && messages_.empty() && acks_.empty()) return;
    if (!connected) return;
    wake_.wait_for(lock, pause_between_batches, [&]() PEN_REQUIRES(mutex_) { return closing_; });
  }
}

}  // namespace penstock::stream
