/// The first step of a frame: checks against the series, frame accounting, and its location in the dataset.
///
/// Runs on the sources' threads; all calls are safe from several threads.
#pragma once

#include <cstdint>
#include <optional>

#include "recorder/series/accounting/rows.hpp"
#include "recorder/series/chunks/assembler.hpp"
#include "recorder/series/chunks/task.hpp"
#include "recorder/series/file_watch.hpp"
#include "recorder/series/opening/store_opener.hpp"
#include "recorder/series/settlement.hpp"
#include "recorder/team/file_role.hpp"
#include "recorder/tree/series_tree.hpp"

namespace penstock::recorder {

class Admission {
 public:
  /// The steps before and after it; all of them outlive it.
  struct Parts {
    StoreOpener& opener;
    SeriesTree& tree;
    Assembler& assembler;
    Settlement& settlement;
    FileWatch& watch;
  };

  /// All of them outlive it.
  Admission(const SeriesSpec& spec, SeriesAccount& account, FileRole& role, Parts parts)
      : spec_(spec), account_(account), role_(role), parts_(parts) {}

  /// Checks a frame against the series and enters it into the frame accounting. Returns a task if there is something to
  /// write, nothing if the frame is a duplicate or no file can take it yet, an error (field and value) if the frame
  /// cannot be right. `room` is that of its values.
  Result<std::optional<Task>> admit(Frame frame, ValuesRoom room);
  /// Whether this part of the frame came before, also while the series closes.
  bool has(const Frame& frame) const;
  void drop(FrameNumber number);
  void damage(FrameNumber number, std::optional<std::uint32_t> element);

 private:
  Result<std::optional<Task>> admit_now(Frame frame, ValuesRoom room);
  Result<void> check(const Frame& frame) const;
  Result<void> check_element(const Frame& frame) const;
  Result<std::optional<std::uint32_t>> check_payload(const Frame& frame);
  bool can_be(FrameNumber number) const;
  void learn_end();
  std::optional<Task> lose(const Frame& frame, Errc why);
  Result<std::uint64_t> location_of(const Frame& frame);

  const SeriesSpec& spec_;
  SeriesAccount& account_;
  FileRole& role_;
  const Parts parts_;
  ScanPlaces places_;
};

}  // namespace penstock::recorder
