/// The places of a file with slots: runs of them, and room for HDF5's own structures before, between and
/// behind the runs.
///
/// Everything follows from a few numbers that stand in the file's description, so that no process has to
/// ask another one for a place. A series of announced length has one run, with all behind it free; one
/// with an open end, or a huge announcement, has runs without end.
#pragma once

#include <vector>

#include "base/mutex.hpp"
#include "store/layout.hpp"
#include "store/space/space.hpp"

namespace penstock::store {

class EndBesideSlots final : public EndOfFile {
 public:
  /// Takes what lies in the file's next free room.
  Result<std::uint64_t> advance(std::uint64_t bytes) override;

  /// Gives the datasets of `layout` their places, behind all that was taken before. Once.
  void lay_out(FileLayout& layout, std::uint64_t alignment_bytes);

 private:
  Mutex mutex_;
  std::uint64_t next_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t room_end_ PEN_GUARDED_BY(mutex_) = ~std::uint64_t{0};  ///< of the room that next_ is in
  std::uint64_t room_bytes_ PEN_GUARDED_BY(mutex_) = 0;
  std::uint64_t run_bytes_ PEN_GUARDED_BY(mutex_) = 0;
  bool endless_ PEN_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock::store
