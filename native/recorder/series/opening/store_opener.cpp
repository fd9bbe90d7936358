#include "recorder/series/opening/store_opener.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/time/clock.hpp"

namespace penstock::recorder {
namespace {

/// Between two attempts to make the file on a storage that did not take it.
constexpr std::int64_t fit_interval_ns = 200'000'000;
constexpr std::int64_t visible_patience_ns = 75'000'000'000;
constexpr auto visible_poll = std::chrono::milliseconds(100);
constexpr std::size_t items_a_batch = 8192;

bool may_become_visible(Errc code) {
  return code == Errc::not_found || code == Errc::mismatch || code == Errc::truncated || code == Errc::io;
}

}  // namespace

bool may_pass(Errc code) {
  switch (code) {
    case Errc::no_space:
    case Errc::io:
    case Errc::disconnected:
    case Errc::timed_out:
    case Errc::locked:
    case Errc::out_of_memory: return true;
    default: return false;
  }
}

store::StoreOptions StoreOpener::options() const {
  auto options = spec_.config().store;
  options.buffer_bytes = spec_.segment_pool_bytes();
  options.segment_bytes = std::min(options.segment_bytes, options.buffer_bytes / 2 / page_bytes * page_bytes);
  return options;
}

/// Rather than lose a series whose frames cannot be in slots, its file is written as a log.
store::Placement StoreOpener::placement() const {
  const auto& config = spec_.config();
  const auto& coding = parts_.coding;
  const auto instead = [&](const std::string& why) {
    spdlog::warn("{}: store.placement is ignored and \"log\" is used, because {}", spec_.path(), why);
    return store::Placement::log;
  };
  // A frame that comes to two ranks is written to one place twice, which is harmless where the bytes are the same.
  if (config.placement == store::Placement::slots && coding.is_filtered() && role_.shares())
    return instead("a filter plug-in may produce different bytes on different ranks");
  if (config.placement != store::Placement::log && !spec_.fits_slots())
    return instead("fixed offsets require consecutive frames, one per chunk");
  return config.placement;
}

void StoreOpener::use(const CodecSpec& codec, const std::vector<MetaColumn>& columns) {
  parts_.coding.use(codec);
  parts_.tree.use(columns);
  parts_.settlement.use(parts_.tree.columns(),
                        [&tree = parts_.tree](const std::string& name) { return tree.column_path(name); });
}

void StoreOpener::enter(std::unique_ptr<store::Store> store) {
  parts_.store.enter(std::move(store));
  parts_.encoder.make_writers(*parts_.store);
}

void StoreOpener::drop_store() {
  parts_.store.leave();
  parts_.encoder.drop_writers();
  parts_.store.drop();
}

Result<void> StoreOpener::create(bool replace) { return create(spec_.config().codec.encoding, {}, replace); }

Result<void> StoreOpener::create(Encoding encoding, const std::vector<MetaColumn>& columns, bool replace) {
  drop_store();
  auto codec = parts_.coding.codec();
  codec.encoding = encoding;
  use(codec, columns);
  auto create_options = options();
  create_options.overwrite = spec_.may_overwrite() || replace;
  PEN_ASSIGN(auto store, make_store(create_options));
  enter(std::move(store));
  replaced_.reset();
  return {};
}

/// In place of the file of this series that is there, if one is. Without room for both, that one stays until there is.
Result<std::unique_ptr<store::Store>> StoreOpener::make_store(const store::StoreOptions& options) {
  const auto& path = spec_.path();
  const auto layout = parts_.tree.layout(placement());
  PEN_ASSIGN(auto share, parts_.store.begin_file());
  if (replaced_ != nullptr)
    return store::Store::replace(env_, path, layout, options, &parts_.settlement, std::move(share), replaced_);
  return store::Store::create(env_, path, layout, options, &parts_.settlement, std::move(share));
}

/// In place of the file of this series alone, which is there until the new one is complete. Readers may have it open
/// already, and lock it. A user may put another in its place, while this one waits for room, say: then it waits on,
/// until that one is moved away.
Result<void> StoreOpener::make_again(Encoding encoding, const std::vector<MetaColumn>& columns) {
  if (parts_.store) {
    if (!parts_.store->still_named())
      return make_error(Errc::not_found, "the file was removed or replaced before its first frame");
    replaced_ = parts_.store->file();
  }
  auto made = create(encoding, columns, false);
  if (!made.ok() && made.error().code() == Errc::already_exists) {
    if (const auto suppressed = taken_limiter_.admit())
      spdlog::error(
          "{}: another program created it before the first frame: the frames of the series are lost until it is moved "
          "away{}",
          spec_.path(), and_suppressed(*suppressed));
    return make_error(Errc::no_space, "{}", made.error().message());
  }
  return made;
}

void StoreOpener::retry_later(const Error& why) {
  std::lock_guard lock(mutex_);
  note(why);
}

/// With mutex_ held. What is made anew later bears no trace of a failure that passed.
void StoreOpener::note(const Error& why) {
  failure_ = why;
  account_.failures.note(why, !may_pass(why.code()));
}

Result<void> StoreOpener::fit(Encoding encoding, const std::vector<MetaColumn>& columns) {
  if (is_fitted()) return {};
  std::lock_guard lock(mutex_);
  if (is_fitted()) return {};
  return fit_now(encoding, columns);
}

/// With mutex_ held. After a failure that may pass, a later frame is the first one.
Result<void> StoreOpener::fit_now(Encoding encoding, const std::vector<MetaColumn>& columns) {
  if (failure_ && (!may_pass(failure_->code()) || monotonic_ns() - tried_ns_ < fit_interval_ns)) return *failure_;
  tried_ns_ = monotonic_ns();
  const bool as_it_comes = encoding != Encoding::none && spec_.is_chunk_a_frame();
  const auto wanted = as_it_comes ? encoding : spec_.config().codec.encoding;
  if (encoding != Encoding::none && !as_it_comes)
    spdlog::warn(
        "{}: its frames arrive compressed ({}), but a chunk {}: each frame is decompressed and compressed again ({}), "
        "which costs processor time; with one frame per chunk they would be stored unchanged",
        spec_.path(), name(encoding), spec_.gathers() ? "has several frames" : "is a part of a frame", name(wanted));
  if (auto opened = open(wanted, columns); !opened.ok()) {
    note(opened.error());
    return opened;
  }
  parts_.store.set_ready();
  return {};
}

Result<Terms> StoreOpener::terms(Encoding encoding, const std::vector<MetaColumn>& columns) {
  // As a task, so that close() waits until it is made.
  if (!account_.in_flight.begin_task())
    return make_error(Errc::out_of_order, "series \"{}\" is closed", spec_.series().unique_id);
  auto made = terms_now(encoding, columns);
  account_.in_flight.end_task();
  return made;
}

Result<Terms> StoreOpener::terms_now(Encoding encoding, const std::vector<MetaColumn>& columns) {
  PEN_TRY(fit(encoding, columns));
  const auto& store = parts_.store;
  return Terms{parts_.coding.codec().encoding,
               parts_.coding.filter_values(),
               parts_.tree.columns(),
               store.number(),
               store.base(),
               store->shared_file()};
}

/// With mutex_ held: for the terms of another rank, or of this first frame.
Result<void> StoreOpener::open(Encoding wanted, const std::vector<MetaColumn>& columns) {
  PEN_ASSIGN(const auto terms, role_.terms(spec_.series().unique_id, wanted, columns));
  if (terms) return join(*terms);
  const bool is_as_made = !failure_ && wanted == parts_.coding.codec().encoding && columns.empty();
  return is_as_made ? Result<void>{} : make_again(wanted, columns);
}

Result<void> StoreOpener::join(const Terms& terms) {
  auto codec = parts_.coding.codec();
  codec.encoding = terms.encoding;
  use(codec, terms.columns);
  if (const auto own = parts_.coding.filter_values(); own != terms.filter_values)
    return make_error(
        Errc::unsupported,
        "filter plug-ins complete their parameters to {} here and to {} on rank 0; install the same plug-ins", own,
        terms.filter_values);
  PEN_ASSIGN(auto store, join_once_visible(terms));
  enter(std::move(store));
  return {};
}

/// A network file system may show another machine's file late: NFS remembers for up to a minute that there was none,
/// or what stood there before. The rank's frames wait meanwhile.
Result<std::unique_ptr<store::Store>> StoreOpener::join_once_visible(const Terms& terms) {
  const auto give_up_ns = monotonic_ns() + visible_patience_ns;
  bool logged = false;
  while (true) {
    auto joined = store::Store::join(env_, spec_.path(), parts_.tree.layout(store::Placement::log), options(),
                                     &parts_.settlement, parts_.store.join_file(terms.file, terms.base), terms.shared);
    if (joined.ok() || !may_become_visible(joined.error().code()) || !account_.may_wait || monotonic_ns() > give_up_ns)
      return joined;
    if (!std::exchange(logged, true))
      spdlog::warn("{}: {}; tried again for {} s", spec_.path(), joined.error().message(),
                   visible_patience_ns / 1'000'000'000);
    std::this_thread::sleep_for(visible_poll);
  }
}

Result<void> StoreOpener::resume() {
  const auto& config = spec_.config();
  const auto& series = spec_.series();
  PEN_ASSIGN(const auto left, find_left_file(env_, spec_.path(), config, series, parts_.coding.filters()));
  if (!left || left->blank) return create(left.has_value());
  spdlog::info("{} exists: reading its contents", spec_.path());
  PEN_ASSIGN(const auto contents, complete_left_file(spec_.path(), series, series.resumed));
  return contents.empty ? create(true) : resume(*left, contents);
}

Result<void> StoreOpener::resume(const LeftFile& left, const LeftContents& contents) {
  if (const auto configured = spec_.config().codec.encoding; configured != left.codec.encoding)
    spdlog::warn("{}: the file uses {}: {} is not used", spec_.path(), name(left.codec.encoding),
                 parts_.coding.filters().empty() ? fmt::format("codec {}", name(configured)) : "the HDF5 filter");
  use(left.codec, left.columns);
  enter_contents(contents);
  PEN_ASSIGN(auto share, parts_.store.begin_file());
  auto shared = left.shared;
  shared.last_sequence = contents.last_sequence;
  PEN_ASSIGN(auto store, store::Store::resume(env_, spec_.path(), parts_.tree.layout(store::Placement::log), options(),
                                              &parts_.settlement, std::move(share), shared));
  enter(std::move(store));
  // The file's terms stand: frames that come encoded otherwise are encoded again.
  parts_.store.set_ready();
  return {};
}

/// Before the store is open: no other thread asks the frame accounting yet.
void StoreOpener::enter_contents(const LeftContents& contents) {
  auto& ledger = account_.ledger;
  std::uint64_t chunks = 0;
  std::vector<Ledger::Item> items;
  const auto enter = [&] {
    account_.counters.frames_before += ledger.placed_elsewhere(items).size();
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
  ledger.add(before);
  account_.counters.note_received(contents.last_received_ns);
  account_.counters.raw_bytes += chunks * spec_.part_bytes();
  account_.written.add({}, chunks, contents.stored_bytes);
}

}  // namespace penstock::recorder
