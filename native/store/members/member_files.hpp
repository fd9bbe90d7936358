/// The members that one rank writes of a master file.
///
/// Each is a Penstock file like any other, with a store of its own. A few are open at a time: a member is closed when
/// all of its frames are in it, or when newer ones are wanted and it has been used least lately. A chunk that comes for
/// one that is closed is refused.
///
/// Writers are used by one thread each and do not outlive this; everything else from any thread. `deliver` gets what
/// became of the chunks, with the series' frame numbers and this rank's, from the members' threads; it may wait, and
/// outlives this.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/pipeline.hpp"
#include "store/recovery/late_values.hpp"
#include "store/store.hpp"

namespace penstock::store {

class MemberFiles {
 public:
  using Deliver = std::function<void(WrittenSegment)>;

  MemberFiles(Env& env, const std::string& master, const FileLayout& layout, const StoreOptions& options, unsigned rank,
              Deliver deliver);
  /// Leaves the members that are open as a crash would.
  ~MemberFiles();

  std::unique_ptr<ChunkWriter> make_writer();
  /// After the last writer is gone or flushed: closes all members. Returns the first failure to close one.
  Result<void> finish(std::uint64_t frames);
  /// Store::hurry(), for members that are open.
  void hurry();
  /// Looks whether the members that are open, and one of those that are closed, are still found at their paths. Returns
  /// the path of one that is not; empty if all are.
  std::string lost_file();
  /// After finish(), of all ranks: the members' segments that have values of frames.
  Result<std::vector<LateSource>> late_sources() const;
  /// Of all members; chunks are counted where they are delivered to.
  StoreStats stats() const;

 private:
  class Member;
  class Writer;

  Result<Member*> acquire(std::uint64_t frame);
  void release(Member* member);
  std::unique_ptr<Member> let_go(Member* member);
  void retire_stale();
  Result<void> make(std::uint64_t block, std::unique_lock<std::mutex>& lock);
  Result<std::unique_ptr<Member>> create(std::uint64_t number, bool replace);
  FileLayout layout_of(std::uint64_t number) const;
  std::uint64_t rows_of(std::uint64_t number, std::uint64_t frames) const;
  void close_retired();
  void close(Member& member, std::uint64_t frames);
  void stop(bool closing);

  Env& env_;
  const std::string folder_;
  const std::string master_;  ///< the name alone
  const FileLayout layout_;
  StoreOptions options_;
  const unsigned rank_;
  const Deliver deliver_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::map<std::uint64_t, std::unique_ptr<Member>> open_;  ///< by block of frames; also those that are being closed
  std::set<std::uint64_t> being_made_;                     ///< blocks that are not in open_ yet
  std::set<std::uint64_t> closed_;
  std::uint64_t looked_at_ = 0;                ///< the next block of closed_ that lost_file() looks at
  std::vector<std::unique_ptr<Member>> held_;  ///< closed, while they have holders
  std::set<std::uint64_t> unmade_;             ///< numbers of which an attempt may have left a file
  std::uint64_t frames_ = 0;                   ///< of the series, once it has ended
  bool stopping_ = false;
  bool closing_all_ = false;
  StoreStats closed_stats_;
  std::optional<Error> failure_;

  std::thread closer_;
};

/// Of a store's own file at `path` and its members, if it has some: the path of one that is not found there any more.
std::string lost_file(const std::string& path, const File& file, MemberFiles* members);

/// Of a store that has either a pipeline or members.
StoreStats stats_of(const Counters& counters, const Pipeline* pipeline, const MemberFiles* members);

}  // namespace penstock::store
