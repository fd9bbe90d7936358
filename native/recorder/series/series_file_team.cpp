/// The part of a series' file that a rank has in a team: what it gets from the lead, and what it tells it.

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "recorder/series/series_file.hpp"

namespace penstock::recorder {
namespace {

constexpr std::int64_t visible_patience_ns = 75'000'000'000;
constexpr auto visible_poll = std::chrono::milliseconds(100);

bool may_become_visible(Errc code) {
  return code == Errc::not_found || code == Errc::mismatch || code == Errc::truncated || code == Errc::io;
}

}  // namespace

/// With the lead's terms: by its own first frame, or by one that came to another rank before.
Result<void> SeriesFile::join_store(Encoding encoding, const std::vector<MetaColumn>& columns) {
  PEN_ASSIGN(const auto answer, team_.ask({{"ask", "terms"},
                                           {"series_unique_id", series_.unique_id},
                                           {"encoding", name(encoding)},
                                           {"columns", to_json(columns)}},
                                          std::chrono::seconds(60)));
  PEN_ASSIGN(const auto terms, terms_from(answer));
  use(terms.encoding, terms.columns);
  if (const auto own = filter_values(); own != terms.filter_values)
    return make_error(
        Errc::unsupported,
        "filter plug-ins complete their parameters to {} here and to {} on the lead; install the same ones", own,
        terms.filter_values);
  PEN_ASSIGN(store_, join_once_visible(terms));
  file_ = terms.file;
  team_.enter(file_, store_.get());
  entered_ = true;
  make_writers();
  return {};
}

/// A network file system may show another machine's file late: NFS remembers for up to a minute that there was none,
/// or what stood there before. The rank's frames wait meanwhile.
Result<std::unique_ptr<store::Store>> SeriesFile::join_once_visible(const Terms& terms) {
  const auto give_up_ns = monotonic_ns() + visible_patience_ns;
  bool told = false;
  while (true) {
    auto joined = store::Store::join(env_, path_, layout(store::Placement::log), store_options(), this,
                                     team_.share(terms.file, terms.base), terms.shared);
    if (joined.ok() || !may_become_visible(joined.error().code()) || !waits_ || monotonic_ns() > give_up_ns)
      return joined;
    if (!std::exchange(told, true))
      spdlog::warn("{}: {}; tried again for {} s", path_, joined.error().message(),
                   visible_patience_ns / 1'000'000'000);
    std::this_thread::sleep_for(visible_poll);
  }
}

Result<Terms> SeriesFile::terms(Encoding encoding, const std::vector<MetaColumn>& columns) {
  {
    std::lock_guard lock(mutex_);
    if (closing_) return make_error(Errc::out_of_order, "series \"{}\" is closed", series_.unique_id);
  }
  PEN_TRY(fit(encoding, columns));
  return Terms{codec_.encoding, filter_values(), columns_, file_, file_base_, store_->shared_file()};
}

std::vector<std::vector<unsigned>> SeriesFile::filter_values() const {
  std::vector<std::vector<unsigned>> values;
  if (filtered_)
    for (const auto& filter : filters_) values.push_back(filter.spec.values);
  return values;
}

nlohmann::json SeriesFile::part() const {
  const auto found = stats();
  const auto& counts = found.ledger;
  auto parts = nlohmann::json::array();
  for (const auto& each : ledger_.parts()) parts.push_back({each.late, each.duplicate, each.damaged});
  return {{"parts", std::move(parts)},
          {"duplicate", counts.duplicate},
          {"late", counts.late},
          {"damaged", counts.damaged},
          {"dropped", counts.dropped},
          {"lost", counts.lost},
          {"end", counts.end},
          {"unfiltered", found.unfiltered},
          {"encode_ns", found.encode_ns},
          {"write_ns", found.store.write_ns},
          {"sync_ns", found.store.sync_ns},
          {"latency", found.latency.values()},
          {"edges", to_json(edges())},
          {"unfitting", batch_ ? batch_->unfitting() : std::vector<std::uint64_t>()},
          {"received_ns", last_received_ns_.load()},
          {"problem", first_failure()},
          {"spoiled", is_spoiled()}};
}

void SeriesFile::add_part(const nlohmann::json& part) {
  LedgerCounts counts;
  counts.duplicate = part.value("duplicate", std::uint64_t{0});
  counts.late = part.value("late", std::uint64_t{0});
  counts.damaged = part.value("damaged", std::uint64_t{0});
  counts.dropped = part.value("dropped", std::uint64_t{0});
  counts.lost = part.value("lost", std::uint64_t{0});
  counts.end = part.value("end", std::uint64_t{0});
  ledger_.add(counts);
  std::vector<PartCounts> parts;
  for (const auto& each : part.value("parts", nlohmann::json::array()))
    parts.push_back({.late = each.at(0), .duplicate = each.at(1), .damaged = each.at(2)});
  ledger_.add(parts);
  note_received(part.value("received_ns", std::int64_t{0}));
  unfiltered_ += part.value("unfiltered", std::uint64_t{0});
  encode_ns_ += part.value("encode_ns", std::int64_t{0});
  elsewhere_write_ns_ += part.value("write_ns", std::int64_t{0});
  elsewhere_sync_ns_ += part.value("sync_ns", std::int64_t{0});
  if (const auto problem = part.value("problem", std::string()); !problem.empty())
    note_failure(make_error(Errc::io, "{}", problem), part.value("spoiled", true));
  {
    std::lock_guard lock(edges_mutex_);
    edges_.merge(edges_from(part.value("edges", nlohmann::json())));
  }
  const auto unfitting = part.value("unfitting", std::vector<std::uint64_t>());
  std::lock_guard lock(mutex_);
  unfitting_elsewhere_.resize(std::max(unfitting_elsewhere_.size(), unfitting.size()));
  for (std::size_t i = 0; i < unfitting.size(); ++i) unfitting_elsewhere_[i] += unfitting[i];
  latency_.merge(part.value("latency", std::vector<std::uint64_t>()));
}

void SeriesFile::already_there(std::span<const store::PlacedChunk> chunks) {
  std::vector<RowSlots::Settled> settled;
  for (const auto& chunk : chunks) settle_chunks(chunk.head.cookie, Fate::already_there, 1, -1, -1, settled);
  conclude(std::move(settled));
  notify_sessions();
}

void SeriesFile::placed_elsewhere(std::span<const store::PlacedChunk> chunks) {
  std::vector<Ledger::Item> items;
  std::uint64_t bytes = 0;
  for (const auto& chunk : chunks) {
    if (note_part(chunk.head)) items.push_back(item_of(chunk.head));
    bytes += chunk.size;
  }
  const auto whole = ledger_.placed_elsewhere(items);
  whole_elsewhere_.insert(whole_elsewhere_.end(), whole.begin(), whole.end());
  last_activity_ns_ = monotonic_ns();
  raw_bytes_ += items.size() * raw_bytes_a_part_;
  {
    std::lock_guard lock(mutex_);
    images_written_ += items.size();
    stored_bytes_ += bytes;
  }
  notify_sessions();
}

/// To the lead, which writes the states.
void SeriesFile::tell_blemishes() {
  auto list = nlohmann::json::array();
  for (const auto& [number, state] : ledger_.take_blemishes()) list.push_back({value(number), static_cast<int>(state)});
  if (list.empty()) return;
  team_.tell(job::lead, {{"tell", "blemishes"}, {"series_unique_id", series_.unique_id}, {"frames", list}});
}

/// A number that seems far ahead may not be: the frames between went to other ranks.
void SeriesFile::learn_end() {
  const auto answer = team_.ask({{"ask", "end"}, {"series_unique_id", series_.unique_id}}, std::chrono::seconds(60));
  if (answer.ok()) ledger_.raise_end(answer->value("end", std::uint64_t{0}));
}

}  // namespace penstock::recorder
