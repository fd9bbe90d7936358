/// Makes, joins or resumes the file of a series, and settles with the first frame what it is made for.
///
/// Only the first frame shows how the detector compresses and which values it brings along. The coordinator makes the
/// file when the series begins, and replaces it with the first frame if the guess was wrong; another rank joins it
/// with its first frame. create() and resume() come first, on one thread; fit() and terms() are safe from several.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log_rate_limiter.hpp"
#include "recorder/config/config.hpp"
#include "recorder/series/chunks/chunk_encoder.hpp"
#include "recorder/series/opening/shared_store.hpp"
#include "recorder/series/resume/left_file.hpp"
#include "recorder/series/settlement.hpp"
#include "recorder/team/file_role.hpp"
#include "recorder/tree/series_tree.hpp"

namespace penstock::recorder {

/// Whether a file that cannot be made now may be possible to make later, without a change of what is asked for: a full
/// storage, a server that does not answer.
bool may_pass(Errc code);

class StoreOpener {
 public:
  /// Parts that are prepared for what the file is made for; all of them outlive the opener.
  struct Parts {
    ChunkCoding& coding;
    SeriesTree& tree;
    Settlement& settlement;
    ChunkEncoder& encoder;
    SharedStore& store;
  };

  /// All of them outlive it.
  StoreOpener(Env& env, FileRole& role, const SeriesSpec& spec, SeriesAccount& account, Parts parts)
      : env_(env), role_(role), spec_(spec), account_(account), parts_(parts) {}

  /// The coordinator's: makes the file as the configuration suggests. `replace` if a file without frames is there.
  Result<void> create(bool replace);
  /// The coordinator's: continues in the file that a recorder left
  /// (docs/explanation/decisions/0017-a-series-goes-on-in-its-file.md), or creates it if there is none.
  Result<void> resume();
  /// The file could not be made, for a reason that may pass: one of the frames makes it once it has.
  void retry_later(const Error& why);

  /// Whether it is settled what the file is made for. Loads one atomic.
  bool is_fitted() const { return parts_.store.is_ready(); }
  /// Settles it, by the first frame's encoding and the values that it brings along. After an error that may pass, a
  /// later frame tries again.
  Result<void> fit(Encoding encoding, const std::vector<MetaColumn>& columns);
  /// The coordinator's: what the file is made for, settled by another rank's frame if it is the first one.
  Result<Terms> terms(Encoding encoding, const std::vector<MetaColumn>& columns);

  /// Destroys the writers and the store.
  void drop_store();

 private:
  void note(const Error& why);
  Result<Terms> terms_now(Encoding encoding, const std::vector<MetaColumn>& columns);
  Result<void> fit_now(Encoding encoding, const std::vector<MetaColumn>& columns);
  void use(const CodecSpec& codec, const std::vector<MetaColumn>& columns);
  void enter(std::unique_ptr<store::Store> store);
  Result<void> create(Encoding encoding, const std::vector<MetaColumn>& columns, bool replace);
  Result<std::unique_ptr<store::Store>> make_store(const store::StoreOptions& options);
  Result<void> make_again(Encoding encoding, const std::vector<MetaColumn>& columns);
  Result<void> open(Encoding wanted, const std::vector<MetaColumn>& columns);
  Result<void> join(const Terms& terms);
  Result<std::unique_ptr<store::Store>> join_once_visible(const Terms& terms);
  Result<void> resume(const LeftFile& left, const LeftContents& contents);
  void enter_contents(const LeftContents& contents);
  store::StoreOptions options() const;
  store::Placement placement() const;

  Env& env_;
  FileRole& role_;
  const SeriesSpec& spec_;
  SeriesAccount& account_;
  const Parts parts_;
  LogRateLimiter taken_limiter_;

  std::mutex mutex_;
  // guarded by mutex_
  std::optional<Error> failure_;  ///< of the last attempt; fit() tries no more unless it may pass
  std::int64_t tried_ns_ = 0;
  /// The series' file that is there, while another one is to be made in its place.
  std::shared_ptr<File> replaced_;
};

}  // namespace penstock::recorder
