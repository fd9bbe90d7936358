#include <algorithm>
#include <atomic>
#include <ctime>

#include "base/time/clock.hpp"
#include "load/backends/backend.hpp"

namespace penstock::load {
namespace {

/// Time that a call takes in storage that misbehaves by the clock.
class Misbehaviour {
 public:
  explicit Misbehaviour(const NullPlan& plan) : plan_(plan) {}

  void start(std::int64_t start_ns) { freeze_begin_ns_ = start_ns + plan_.freeze_at_ns; }

  void spend() {
    if (plan_.delay_ns == 0 && plan_.straggler_every == 0 && plan_.freeze_ns == 0) return;
    const auto now_ns = monotonic_ns();
    const auto end_ns = end_of(now_ns);
    const timespec until{end_ns / 1'000'000'000, end_ns % 1'000'000'000};
    while (monotonic_ns() < end_ns) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }

 private:
  std::int64_t end_of(std::int64_t begin_ns) {
    auto end_ns = begin_ns + plan_.delay_ns;
    if (plan_.straggler_every > 0 && calls_.fetch_add(1) % plan_.straggler_every == plan_.straggler_every - 1)
      end_ns += plan_.straggler_ns;
    const auto freeze_end_ns = freeze_begin_ns_ + plan_.freeze_ns;
    // What is under way when it freezes goes on where it was; what comes meanwhile begins when it thaws.
    if (begin_ns >= freeze_end_ns || end_ns < freeze_begin_ns_) return end_ns;
    return end_ns + freeze_end_ns - std::max(begin_ns, freeze_begin_ns_);
  }

  const NullPlan plan_;
  std::int64_t freeze_begin_ns_ = 0;
  std::atomic<std::uint64_t> calls_{0};
};

class NullFile final : public StoredFile {
 public:
  explicit NullFile(Misbehaviour& misbehaviour) : misbehaviour_(misbehaviour) {}
  Result<void> write(Bytes, std::uint64_t) override {
    misbehaviour_.spend();
    return {};
  }
  Result<std::size_t> read(MutableBytes into, std::uint64_t) override {
    misbehaviour_.spend();
    return into.size();
  }
  Result<void> sync() override { return {}; }
  Result<void> close() override { return {}; }

 private:
  Misbehaviour& misbehaviour_;
};

class NullNames final : public Names {
 public:
  explicit NullNames(Misbehaviour& misbehaviour) : misbehaviour_(misbehaviour) {}
  Result<void> make_folder(const char*) override { return spend(); }
  Result<void> remove_folder(const char*) override { return spend(); }
  Result<void> look_up(const char*) override { return spend(); }
  Result<void> create(const char*, Bytes, bool, bool&) override { return spend(); }
  Result<std::size_t> read(const char*, MutableBytes into) override {
    misbehaviour_.spend();
    return into.size();
  }
  Result<void> rename(const char*, const char*) override { return spend(); }
  Result<void> remove(const char*) override { return spend(); }

 private:
  Result<void> spend() {
    misbehaviour_.spend();
    return {};
  }

  Misbehaviour& misbehaviour_;
};

class NullBackend final : public Backend {
 public:
  explicit NullBackend(const NullPlan& plan) : misbehaviour_(plan) {}
  void start(std::int64_t start_ns) override { misbehaviour_.start(start_ns); }
  std::uint64_t alignment() const override { return 1; }
  Result<std::unique_ptr<StoredFile>> create(const std::string& name, bool&) override { return open(name); }
  Result<std::unique_ptr<StoredFile>> open(const std::string&) override {
    return std::unique_ptr<StoredFile>(std::make_unique<NullFile>(misbehaviour_));
  }
  Result<std::unique_ptr<StoredFile>> join(const std::string& name) override { return open(name); }
  std::optional<std::uint64_t> cached_bytes(const std::string&) override { return std::nullopt; }
  Result<std::unique_ptr<Names>> names() override {
    return std::unique_ptr<Names>(std::make_unique<NullNames>(misbehaviour_));
  }
  Sync sync() const override { return Sync::none; }
  Json describe() const override { return {{"direct", false}}; }

 private:
  Misbehaviour misbehaviour_;
};

}  // namespace

std::shared_ptr<Backend> make_null_backend(const NullPlan& plan) { return std::make_shared<NullBackend>(plan); }

}  // namespace penstock::load
