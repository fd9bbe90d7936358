/// Going on with a series in the file that a recorder left.

#include <spdlog/spdlog.h>

#include <tuple>

#include "recorder/series/series_file.hpp"
#include "recorder/tree/nexus/nexus.hpp"

namespace penstock::recorder {
namespace {

constexpr std::size_t items_a_batch = 8192;

}  // namespace

Result<std::shared_ptr<SeriesFile>> SeriesFile::resume(Env& env, const Config& config, Team& team, Series series,
                                                       std::string path) {
  PEN_ASSIGN(auto file, make(env, config, team, std::move(series), path));
  PEN_ASSIGN(const auto left, find_left_file(env, path, config, file->series_, file->filters_));
  if (!left || left->blank) {
    PEN_TRY(file->create_store(config.codec.encoding, {}, left.has_value()));
    return file;
  }
  spdlog::info("{} is there: looking at what is in it", path);
  PEN_ASSIGN(const auto contents, complete_left_file(path, file->series_, file->series_.resumed));
  if (contents.empty)
    PEN_TRY(file->create_store(config.codec.encoding, {}, true));
  else
    PEN_TRY(file->resume_store(*left, contents));
  return file;
}

Result<void> SeriesFile::resume_store(const LeftFile& left, const LeftContents& contents) {
  codec_ = left.codec;
  use(codec_.encoding, left.columns);
  enter_contents(contents);
  PEN_ASSIGN(const auto number, team_.new_file());
  std::tie(file_, file_base_) = number;
  auto shared = left.shared;
  shared.last_sequence = contents.last_sequence;
  PEN_ASSIGN(store_, store::Store::resume(env_, path_, layout(store::Placement::log), store_options(), this,
                                          team_.share(file_, file_base_), shared));
  team_.enter(file_, store_.get());
  entered_ = true;
  make_writers();
  // The file's terms stand: frames that come encoded otherwise are encoded again.
  std::lock_guard lock(first_mutex_);
  first_seen_ = true;
  fitted_.store(true, std::memory_order_release);
  return {};
}

/// Before the store is open: nobody else asks the ledger yet.
void SeriesFile::enter_contents(const LeftContents& contents) {
  std::uint64_t chunks = 0;
  std::vector<Ledger::Item> items;
  const auto enter = [&] {
    frames_before_ += ledger_.placed_elsewhere(items).size();
    items.clear();
  };
  for (std::uint32_t channel = 0; channel < contents.datasets.size(); ++channel)
    for (const auto& run : contents.datasets[channel])
      for (auto number = run.first; number <= run.last; ++number) {
        items.push_back({FrameNumber{number}, channel});
        ++chunks;
        if (items.size() == items_a_batch) enter();
      }
  enter();
  LedgerCounts before;
  before.damaged = contents.damaged;
  before.dropped = contents.dropped;
  before.lost = contents.lost;
  ledger_.add(before);
  note_received(contents.last_received_ns);
  raw_bytes_ += chunks * raw_bytes_a_part_;
  std::lock_guard lock(mutex_);
  images_written_ += chunks;
  stored_bytes_ += contents.stored_bytes;
}

}  // namespace penstock::recorder
