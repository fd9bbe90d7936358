#include "load/backends/queued_file.hpp"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/files/refusals.hpp"
#include "base/time/clock.hpp"

namespace penstock::load {
namespace {

/// The kernel has no memory for more transfers now, or more results than it likes wait to be taken.
bool is_busy(int result) { return result == -EAGAIN || result == -EBUSY; }
/// How long a kernel that has nothing of ours under way may say so.
constexpr std::int64_t busy_ns_max = 2'000'000'000;
constexpr auto nap = std::chrono::milliseconds(1);

class QueuedFile final : public StoredFile {
 public:
  QueuedFile(std::shared_ptr<File> file, const io_uring& ring, unsigned depth)
      : file_(std::move(file)), ring_(ring), transfers_(depth) {}
  QueuedFile(const QueuedFile&) = delete;
  QueuedFile& operator=(const QueuedFile&) = delete;
  ~QueuedFile() override {
    // The kernel moves bytes from and into memory that is about to go: no error is a reason not to wait for it. What it
    // was never told of goes with the ring.
    while (in_kernel() > 0) {
      io_uring_cqe* done = nullptr;
      if (io_uring_wait_cqe(&ring_, &done) == 0)
        (void)take(done);
      else
        std::this_thread::sleep_for(nap);
    }
    io_uring_queue_exit(&ring_);
  }

  unsigned depth() const override { return static_cast<unsigned>(transfers_.size()); }

  Result<void> begin_write(unsigned slot, Bytes bytes, std::uint64_t offset) override {
    PEN_ASSIGN(auto* const entry, next_entry());
    io_uring_prep_write(entry, file_->descriptor(), bytes.data(), static_cast<unsigned>(bytes.size()), offset);
    begun(entry, slot, {bytes, {}, offset});
    return {};
  }

  Result<void> begin_read(unsigned slot, MutableBytes into, std::uint64_t offset) override {
    PEN_ASSIGN(auto* const entry, next_entry());
    io_uring_prep_read(entry, file_->descriptor(), into.data(), static_cast<unsigned>(into.size()), offset);
    begun(entry, slot, {{}, into, offset});
    return {};
  }

  Result<Ended> wait_for_one() override {
    io_uring_cqe* done = nullptr;
    std::int64_t busy_since_ns = 0;
    int waited = submit_and_wait(&done);
    while (waited == -EINTR || is_busy(waited)) {
      if (is_busy(waited)) {
        if (busy_since_ns == 0) busy_since_ns = monotonic_ns();
        if (monotonic_ns() - busy_since_ns > busy_ns_max) break;
        std::this_thread::sleep_for(nap);
      }
      waited = submit_and_wait(&done);
    }
    if (waited < 0) return errno_error(-waited, fmt::format("hand {} transfers to io_uring", unsubmitted_));
    const int moved = done->res;
    const auto slot = take(done);
    return Ended{slot, completed(transfers_[slot], moved)};
  }

  Result<void> write(Bytes bytes, std::uint64_t offset) override { return write_at(*file_, bytes, offset); }
  Result<std::size_t> read(MutableBytes into, std::uint64_t offset) override { return file_->read_at(into, offset); }
  Result<void> sync() override { return file_->sync(); }
  Result<void> close() override { return file_->close(); }

 private:
  struct Transfer {
    Bytes written;
    MutableBytes read;
    std::uint64_t offset = 0;
  };

  /// A ring has as many entries as there are slots.
  Result<io_uring_sqe*> next_entry() {
    auto* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return make_error(Errc::internal, "io_uring has no free entry");
    return entry;
  }

  void begun(io_uring_sqe* entry, unsigned slot, Transfer transfer) {
    io_uring_sqe_set_data64(entry, slot);
    transfers_[slot] = transfer;
    ++under_way_;
    ++unsubmitted_;
  }

  /// Of those under way, what the kernel knows.
  unsigned in_kernel() const { return under_way_ - unsubmitted_; }

  /// One system call for what was begun and for what has ended. Where the kernel takes nothing more, what it has
  /// already is waited for: that makes room.
  int submit_and_wait(io_uring_cqe** done) {
    if (unsubmitted_ > 0) {
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted > 0) unsubmitted_ -= std::min(unsubmitted_, static_cast<unsigned>(submitted));
      if (submitted < 0 && !is_busy(submitted)) return submitted;
    }
    return in_kernel() > 0 ? io_uring_wait_cqe(&ring_, done) : -EAGAIN;
  }

  /// The result is no longer in the ring; whose it was.
  unsigned take(io_uring_cqe* done) {
    const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(done));
    io_uring_cqe_seen(&ring_, done);
    --under_way_;
    return slot;
  }

  /// The kernel may move a part only; the plain call does the rest, or tells why it cannot.
  Result<std::size_t> completed(const Transfer& transfer, int moved) {
    const bool writes = transfer.read.empty();
    const auto size = writes ? transfer.written.size() : transfer.read.size();
    // Where direct I/O is refused the plain call goes on without, or knows that a limit on the size of files made it
    // so.
    if (moved < 0 && moved != -EAGAIN && moved != -EINTR && !is_refusal(Aid::direct, -moved))
      return errno_error(-moved, fmt::format("{} {} bytes at {}", writes ? "write" : "read", size, transfer.offset));
    auto done = static_cast<std::size_t>(std::max(moved, 0));
    if (done == size) return size;
    if (file_->direct()) done -= done % page_bytes;  // past the page cache the rest begins at a page
    if (!writes) {
      PEN_ASSIGN(const auto more, file_->read_at(transfer.read.subspan(done), transfer.offset + done));
      return done + more;
    }
    PEN_TRY(write_at(*file_, transfer.written.subspan(done), transfer.offset + done));
    return size;
  }

  const std::shared_ptr<File> file_;
  io_uring ring_;
  std::vector<Transfer> transfers_;  ///< by slot
  unsigned under_way_ = 0;
  unsigned unsubmitted_ = 0;  ///< of those under way, what the kernel does not know yet
};

}  // namespace

Result<std::unique_ptr<StoredFile>> make_queued_file(std::shared_ptr<File> file, unsigned depth) {
  if (file->descriptor() < 0) return make_error(Errc::unsupported, "io_uring requires files of the kernel");
  io_uring ring{};
  const int made = io_uring_queue_init(depth, &ring, 0);
  if (made == -EPERM || made == -ENOSYS || made == -EACCES)
    return make_error(Errc::unsupported,
                      "backend.queue_depth {} requires io_uring, which this machine or container forbids "
                      "(kernel.io_uring_disabled, seccomp): allow it, or use more threads with a queue depth of 1",
                      depth);
  if (made == -ENOMEM)
    return make_error(
        Errc::out_of_memory,
        "an io_uring of {} entries needs more memory than may be locked: before Linux 5.12 that is a limit "
        "of the user, `ulimit -l`; raise it, or choose a smaller backend.queue_depth",
        depth);
  if (made < 0) return errno_error(-made, fmt::format("make an io_uring of {} entries", depth));
  return std::unique_ptr<StoredFile>(std::make_unique<QueuedFile>(std::move(file), ring, depth));
}

}  // namespace penstock::load
