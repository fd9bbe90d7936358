#include "recover/proof.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/crc32c.hpp"
#include "base/threads.hpp"
#include "store/recovery/cut_short.hpp"

namespace penstock::recover {
namespace {

constexpr std::uint64_t read_bytes = 8 << 20;
/// Between two chunks that are read together.
constexpr std::uint64_t gap_bytes = 64 << 10;

/// Chunks that are read at once: positions [first, last) in the list by address, and their bytes in the file.
struct Span {
  std::size_t first = 0, last = 0;
  std::uint64_t begin = 0, end = 0;
};

class Prover {
 public:
  Prover(File& file, std::span<const Candidate> candidates, std::vector<std::size_t> wanted,
         const ProofOptions& options)
      : file_(file), candidates_(candidates), wanted_(std::move(wanted)), options_(options) {
    std::sort(wanted_.begin(), wanted_.end(),
              [&](auto a, auto b) { return candidates_[a].address < candidates_[b].address; });
    proofs_.resize(candidates.size(), Proof::not_asked);
    form_spans();
  }

  Result<std::vector<Proof>> run() {
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < std::min<std::size_t>(options_.threads, spans_.size()); ++i)
        threads.emplace_back([this] { work(); });
    }
    if (stopped_) return make_error(Errc::cancelled, "stopped before the end; nothing was written");
    return std::move(proofs_);
  }

 private:
  void form_spans() {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const auto& candidate = candidates_[wanted_[i]];
      const auto end = candidate.address + candidate.size;
      if (!spans_.empty()) {
        auto& span = spans_.back();
        const bool near = candidate.address <= span.end + gap_bytes;
        if (near && std::max(end, span.end) - span.begin <= read_bytes) {
          span.last = i + 1;
          span.end = std::max(end, span.end);
          continue;
        }
      }
      spans_.push_back({i, i + 1, candidate.address, end});
    }
  }

  void work() {
    begin_thread("prove", Role::other);
    std::vector<std::byte> buffer(read_bytes);
    for (auto next = next_++; next < spans_.size(); next = next_++) {
      if (options_.cancelled && options_.cancelled()) stopped_ = true;
      if (stopped_) return;
      prove_span(spans_[next], buffer);
      options_.advance(spans_[next].end - spans_[next].begin);
    }
  }

  /// What a read of all gives an error for, or no more than a part of, is read chunk by chunk.
  void prove_span(const Span& span, std::vector<std::byte>& buffer) {
    const auto size = span.end - span.begin;
    const auto got = size <= buffer.size() ? file_.read_at(std::span(buffer).first(size), span.begin)
                                           : Result<std::size_t>(std::size_t{0});
    const bool all = got.ok() && *got == size;
    for (auto i = span.first; i < span.last; ++i) {
      const auto& candidate = candidates_[wanted_[i]];
      const auto bytes = Bytes(buffer).subspan(all ? candidate.address - span.begin : 0, all ? candidate.size : 0);
      proofs_[wanted_[i]] = all ? proof_of(crc32c(bytes), candidate) : prove_alone(candidate, buffer);
    }
  }

  Proof proof_of(std::uint32_t crc, const Candidate& candidate) {
    return crc == candidate.crc ? Proof::whole : how_damaged(candidate);
  }

  Proof how_damaged(const Candidate& candidate) {
    const bool cut =
        store::was_cut_short(file_, {candidate.address, candidate.size, candidate.segment_end, candidate.zero_sectors});
    return cut ? Proof::cut_short : Proof::damaged;
  }

  Proof prove_alone(const Candidate& candidate, std::vector<std::byte>& buffer) {
    std::uint32_t crc = 0;
    for (std::uint64_t done = 0; done < candidate.size;) {
      const auto wanted = std::min<std::uint64_t>(buffer.size(), candidate.size - done);
      const auto count = file_.read_at(std::span(buffer).first(wanted), candidate.address + done);
      if (!count.ok()) return Proof::unreadable;
      if (*count < wanted) return how_damaged(candidate);
      crc = crc32c(Bytes(buffer).first(*count), crc);
      done += *count;
    }
    return proof_of(crc, candidate);
  }

  File& file_;
  const std::span<const Candidate> candidates_;
  std::vector<std::size_t> wanted_;  // by address
  const ProofOptions& options_;
  std::vector<Span> spans_;
  std::vector<Proof> proofs_;  // each is written by one thread
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace

Result<std::vector<Proof>> prove(File& file, std::span<const Candidate> candidates, std::vector<std::size_t> wanted,
                                 const ProofOptions& options) {
  return Prover(file, candidates, std::move(wanted), options).run();
}

}  // namespace penstock::recover
