/// How many bytes wait behind starts until their files are there.
#pragma once

#include <cstdint>

#include "series/parts/context.hpp"

namespace penstock::series {

class Lines {
 public:
  explicit Lines(const Context& context)
      : context_(context), starts_(context.rules.starts_bytes_max), frames_(context.rules.frames_bytes_max) {}

  WaitingBytes& starts() { return starts_; }
  const WaitingBytes& starts() const { return starts_; }
  const WaitingBytes& frames() const { return frames_; }

  /// Holds an event until the file of its series is open. If there is no room for a frame, its source has to wait,
  /// unless other sources send through it as well.
  Answer keep(const Entry& entry, bool is_start, std::uint64_t bytes);
  void on(const Taken& event) { (event.start ? starts_ : frames_).release(event.bytes); }

 private:
  const Context& context_;
  WaitingBytes starts_;
  WaitingBytes frames_;
};

}  // namespace penstock::series
