#include "store/store.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <filesystem>

#include "base/mutex.hpp"
#include "base/time/clock.hpp"
#include "store/file_start.hpp"
#include "store/hdf5/indexer.hpp"
#include "store/members/member_files.hpp"
#include "store/members/member_names.hpp"
#include "store/recovery/find_description.hpp"
#include "store/recovery/journal.hpp"
#include "store/recovery/late_values.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/replacement.hpp"
#include "store/recovery/scan.hpp"
#include "store/seal.hpp"
#include "store/share/joined_store.hpp"
#include "store/space/slots.hpp"
#include "store/writer.hpp"

namespace penstock::store {
namespace {

constexpr std::uint64_t chunk_bytes_max = (std::uint64_t{1} << 32) - 1;
constexpr std::uint64_t segment_bytes_limit = std::uint64_t{1} << 30;
/// The description comes behind large values of the start message, at a multiple of the alignment.
constexpr std::uint64_t searched_bytes_max = std::uint64_t{1} << 30;

Result<void> check_options(const StoreOptions& options) {
  const auto bad = [](std::string_view field, std::uint64_t value, std::string_view rule) {
    return make_error(Errc::invalid_argument, "store option {} is {}; {}", field, value, rule);
  };
  if (options.segment_bytes < 2 * page_bytes || options.segment_bytes > segment_bytes_limit)
    return bad("segment_bytes", options.segment_bytes, "from 8192 to 1073741824 is possible");
  if (options.extent_bytes < options.segment_bytes || options.extent_bytes > (std::uint64_t{1} << 40))
    return bad("extent_bytes", options.extent_bytes, "it must be at least segment_bytes and at most 2^40");
  if (options.alignment_bytes < page_bytes || !std::has_single_bit(options.alignment_bytes) ||
      options.alignment_bytes > segment_bytes_limit)
    return bad("alignment_bytes", options.alignment_bytes, "it must be a power of two from 4096 to 1073741824");
  if (options.buffer_bytes < 2 * options.segment_bytes)
    return bad("buffer_bytes", options.buffer_bytes, "it must be at least twice segment_bytes");
  if (options.write_threads < 1 || options.write_threads > 256)
    return bad("write_threads", options.write_threads, "from 1 to 256 is possible");
  if (options.flush_interval.count() < 1) return bad("flush_interval", 0, "it must be at least a millisecond");
  if (options.sync_interval.count() < 1) return bad("sync_interval", 0, "it must be at least a millisecond");
  return {};
}

constexpr std::uint64_t places_bytes_max = std::uint64_t{1} << 60;

Result<void> check_places(const ChunkedNode& node, std::uint64_t frame_bytes) {
  if (node.places.placement == Placement::log) return {};
  if (!node.is_chunk_a_frame())
    return make_error(Errc::invalid_argument, "{} has fixed offsets, which require consecutive frames, one per chunk",
                      node.path);
  const auto most = std::max(node.chunk_bytes_max, frame_bytes);
  if (most > chunk_bytes_max || node.frames_max > places_bytes_max / (2 * align_up(most, segment_bytes_limit)))
    return make_error(Errc::too_large, "{} frames of up to {} bytes at fixed offsets in {}", node.frames_max, most,
                      node.path);
  return {};
}

Result<void> check_layout(const FileLayout& layout) {
  if (layout.chunked.size() > 65535)
    return make_error(Errc::invalid_argument, "{} chunked datasets exceed the maximum of 65535", layout.chunked.size());
  for (const auto& node : layout.chunked) {
    if (node.filters.size() > 32)
      return make_error(Errc::invalid_argument, "{} has {} filters, which exceeds the maximum of 32", node.path,
                        node.filters.size());
    const auto grid = node.grid();
    if (!grid.ok()) return grid.error().with_context(fmt::format("a chunk of {}", node.path));
    if (node.frames_a_chunk() > frames_a_chunk_max)
      return make_error(Errc::invalid_argument, "a chunk of {} has {} frames, which exceeds the maximum of {}",
                        node.path, node.frames_a_chunk(), frames_a_chunk_max);
    const auto bytes = ArraySpec{node.type, grid->chunk()}.bytes(chunk_bytes_max);
    if (!bytes.ok()) return bytes.error().with_context(fmt::format("a chunk of {}", node.path));
    if (node.places.placement != layout.chunked.front().places.placement)
      return make_error(Errc::invalid_argument, "{} has a different placement than the previous dataset", node.path);
    if (layout.members && !node.is_chunk_a_frame())
      return make_error(Errc::invalid_argument,
                        "{} is in several files, which require consecutive frames, one per chunk", node.path);
    PEN_TRY(check_places(node, *bytes));
  }
  return {};
}

/// A file that is to be replaced. Whoever may make links in the folder does not say which file elsewhere that is.
Result<std::shared_ptr<File>> open_no_link(Env& env, const std::string& path) {
  const auto parent = std::filesystem::absolute(path).parent_path();
  const int folder = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return errno_error(errno, fmt::format("open folder {}", parent.string()));
  auto file = env.open(path, {.mode = OpenOptions::Mode::update, .folder = folder});
  ::close(folder);
  std::error_code ignored;
  if (!file.ok() && std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored)))
    return make_error(Errc::already_exists,
                      "{} is a symbolic link, which Penstock does not follow: remove it, or choose another name", path);
  struct stat info {};
  if (file.ok() && (*file)->descriptor() >= 0 && ::fstat((*file)->descriptor(), &info) == 0 && !S_ISREG(info.st_mode))
    return make_error(Errc::already_exists, "{} is not a regular file: remove it, or choose another name", path);
  return file;
}

/// What a user can do with a file that its recorder left.
std::string remedy_of_unfinished(File& file) {
  const auto found = find_description(file, {.begin = 0, .end = searched_bytes_max, .file_id = {}, .cancelled = {}});
  const auto obstacle = found.ok() ? obstacle_to_resume(found->description) : std::string("its start is corrupt");
  if (obstacle.empty()) return "if its recorder has died, continue it with --resume; otherwise choose another name";
  return fmt::format("{}; choose another name; if its recorder has died, complete it with `penstock recover`",
                     obstacle);
}

/// Of a file that may not be replaced.
Error exists(Env& env, const std::string& path) {
  const auto file = open_no_link(env, path);
  if (!file.ok() && file.error().code() == Errc::already_exists) return file.error();
  const auto superblock = file.ok() ? read_own_superblock(**file) : Result<std::optional<OwnSuperblock>>(std::nullopt);
  if (superblock.ok() && *superblock && (*superblock)->open_for_writing)
    return make_error(Errc::already_exists, "{} exists already and is unfinished: {}", path,
                      remedy_of_unfinished(**file));
  return make_error(Errc::already_exists,
                    "{} exists already; choose another name, or let the recorder replace it with --overwrite", path);
}

/// The file that is to be replaced, locked; null if there is none, or if only taking the name shows whether there is.
Result<std::shared_ptr<File>> claim(Env& env, const std::string& path, bool overwrite) {
  const auto there = env.open(path, {.mode = OpenOptions::Mode::update});
  if (there.ok() && !overwrite) return exists(env, path);
  if (!overwrite || (!there.ok() && there.error().code() == Errc::not_found)) return std::shared_ptr<File>();
  if (!there.ok()) return there.error();
  PEN_ASSIGN(auto file, open_no_link(env, path));
  PEN_TRY(file->lock(true));
  PEN_ASSIGN(const bool in_use, may_be_in_use(*file));
  if (in_use)
    return make_error(Errc::already_exists,
                      "{} exists already, is unfinished, and may be recorded at this moment: its file system has no "
                      "locks that would show it; choose another name, or complete it with `penstock recover` first",
                      path);
  return file;
}

/// Of a complete file: from `replaced`, or where nothing may have the name.
Result<void> take_name(Env& env, File& file, const std::string& path, const File* replaced) {
  // Its folder may have moved, and the file with it.
  if ((!file.still_named() && !file.was_moved()) || (replaced != nullptr && !replaced->still_named()))
    return make_error(Errc::not_found, "the file was removed or replaced before its first frame");
  // What takes the place of another file must be complete after a loss of power, whatever the durability.
  if (replaced != nullptr) PEN_TRY(file.sync());
  auto taken = file.rename(path, replaced != nullptr ? IfTaken::replace : IfTaken::fail);
  if (!taken.ok() && taken.error().code() == Errc::already_exists) return exists(env, path);
  return taken;
}

Placement placement_of(const FileLayout& layout) {
  return layout.chunked.empty() ? Placement::log : layout.chunked.front().places.placement;
}

/// Where fixed places need it, extents are small: what is reserved is written to by HDF5 alone.
SpaceOptions space_options(const StoreOptions& options, Placement placement) {
  constexpr std::uint64_t beside_places = 4 << 20;
  const auto extent = placement == Placement::log ? options.extent_bytes : beside_places;
  return {extent, options.alignment_bytes};
}

struct LayoutCounts {
  std::size_t datasets;
  std::size_t columns;
};

class OwnStore final : public Store {
 public:
  OwnStore(const StoreOptions& options, const FileLayout& layout, std::shared_ptr<File> locked, Share share,
           std::uint64_t used_bytes)
      : options_(options),
        share_(std::move(share)),
        file_(std::move(locked)),
        placement_(placement_of(layout)),
        beside_slots_(placement_ == Placement::slots ? std::make_shared<EndBesideSlots>() : nullptr),
        space_(file_, space_options(options, placement_), used_bytes, 0, beside_slots_ ? beside_slots_ : share_.end),
        counts_{layout.chunked.size(), layout.columns.size()},
        shared_(std::make_shared<WriterShared>(options, layout, share_)) {}

  ~OwnStore() override {
    if (shared_->pipeline) shared_->pipeline->drain();
    members_.reset();
    indexer_.reset();
    if (!finished_) space_.release_unused();
  }

  /// Calls `take_name` when the file is complete and marked as open for writing, before it tells the listener.
  Result<void> start(Env& env, const std::string& path, FileLayout layout, Listener* listener,
                     const std::function<Result<void>()>& take_name) {
    shared_file_.id = format::make_file_id();
    const auto lay_out = [&](FileLayout& laid_out) {
      if (beside_slots_) beside_slots_->lay_out(laid_out, options_.alignment_bytes);
    };
    PEN_ASSIGN(auto begun, write_start(*file_, space_, shared_file_.id, layout, lay_out));
    shared_file_.description_address = begun.description_address;
    sealed_ = std::move(begun.headers);
    PEN_ASSIGN(auto index, hdf5::IndexFile::create(file_, space_, layout, shared_file_.id));
    PEN_ASSIGN(const auto again, write_description_again(*file_, space_, shared_file_.id, layout));
    sealed_.push_back(again);
    return run(env, path, layout, std::move(index), listener, take_name);
  }

  Result<void> go_on(Env& env, const std::string& path, const FileLayout& layout, Listener* listener,
                     const SharedFile& file, FileBefore before) {
    shared_file_ = file;
    // What a seal vouched for is this store's to vouch for.
    PEN_TRY(remove_seals(*file_, before.seals));
    sealed_ = std::move(before.sealed);
    PEN_ASSIGN(auto index, hdf5::IndexFile::open(file_, space_, layout));
    return run(env, path, layout, std::move(index), listener);
  }

  Result<void> run(Env& env, const std::string& path, const FileLayout& layout, std::unique_ptr<hdf5::IndexFile> index,
                   Listener* listener, const std::function<Result<void>()>& take_name = {}) {
    path_ = path;
    PEN_TRY(index->start(options_.swmr));
    // Readers lock the file as well, shared; another writer is still kept out.
    if (options_.swmr) PEN_TRY(file_->lock(false));
    if (options_.durability != Durability::none) PEN_TRY(file_->sync());
    if (take_name) PEN_TRY(take_name());
    if (options_.durability != Durability::none) PEN_TRY(file_->sync_name());
    indexer_ = std::make_unique<hdf5::Indexer>(std::move(index), options_, listener, counters_);
    const auto deliver = [this](WrittenSegment segment) { indexer_->push(std::move(segment)); };
    if (layout.members) {
      members_ = std::make_unique<MemberFiles>(env, path, layout, options_, share_.rank, deliver);
      return {};
    }
    // HDF5's small writes go through the page cache, the segments past it: they never share a page.
    auto data = file_;
    if (options_.direct) {
      PEN_ASSIGN(data, open_direct(env, *file_, path));
    }
    shared_->pipeline =
        std::make_unique<Pipeline>(std::move(data), space_, shared_file_.id, options_, sequences(share_, shared_file_),
                                   fixed_places(layout), counters_, deliver);
    return {};
  }

  std::unique_ptr<ChunkWriter> make_writer() override {
    return members_ ? members_->make_writer() : make_chunk_writer(shared_);
  }

  void hurry() override { members_ ? members_->hurry() : shared_->pipeline->hurry(); }

  StoreStats stats() const override { return stats_of(counters_, shared_->pipeline.get(), members_.get()); }

  SharedFile shared_file() const override { return shared_file_; }
  std::shared_ptr<File> file() const override { return file_; }

  Result<void> receive(unsigned from, Bytes bytes) override {
    PEN_ASSIGN(auto message, share::decode(bytes), "rank {}", from);
    if (auto* placed = std::get_if<share::Placed>(&message)) {
      PEN_TRY(check(*placed), "rank {}", from);
      for (auto& chunk : placed->chunks) {
        chunk.rank = from;
        if (!members_) space_.cover(chunk.address + chunk.size);
      }
      indexer_->push({std::move(*placed),
                      [this, from](const share::Indexed& answer) { share_.send(from, share::encode(answer)); }});
    } else if (auto* rows = std::get_if<share::Rows>(&message)) {
      if (static_cast<std::size_t>(rows->column) >= counts_.columns)
        return make_error(Errc::malformed, "rank {}: column {} of {}", from, static_cast<std::size_t>(rows->column),
                          counts_.columns);
      indexer_->push(std::move(*rows));
    } else if (const auto* left = std::get_if<share::Left>(&message)) {
      space_.cover(left->end);
    } else {
      return make_error(Errc::malformed, "rank {} answers rank 0", from);
    }
    return {};
  }

  Result<void> finish(const FinalValues& values) override {
    if (finished_) return make_error(Errc::invalid_argument, "the store is closed already");
    finished_ = true;
    auto written = members_ ? members_->finish(values.frames) : Result<void>{};
    if (!members_) shared_->pipeline->drain();
    auto indexed = indexer_->drain();
    const auto segments_end = space_.end();
    // Also after an error the file is closed as well as it can be.
    auto closed = indexer_->finish(values, values.late_columns ? fill_late() : hdf5::FillLate{});
    if (!indexed.ok()) return indexed;
    PEN_TRY(closed);
    PEN_TRY(written);
    if (share_.ranks > 1 || placement_ != Placement::log) space_.release_unused();
    // HDF5 knows the end, and a file without a seal is to end there; the last batch of the journal may lie behind it.
    PEN_ASSIGN(const auto superblock, read_own_superblock(*file_));
    const auto end = std::max(segments_end, superblock ? superblock->end_of_file : space_.end());
    PEN_TRY(file_->truncate(end));
    const auto started = monotonic_ns();
    PEN_TRY(file_->sync());
    PEN_TRY(seal(end));
    PEN_TRY(file_->sync());
    counters_.sync_ns += monotonic_ns() - started;
    PEN_TRY(file_->unlock());
    if (file_->still_named()) return file_->sync_name();
    if (file_->was_moved()) return {};
    return make_error(Errc::not_found, "the file was removed or replaced during the recording; its frames are lost");
  }

  std::string lost_file() const override { return store::lost_file(path_, *file_, members_.get()); }
  bool was_moved() const override { return file_->was_moved() && (!members_ || members_->lost_file().empty()); }

 private:
  Result<void> check(const share::Placed& placed) const {
    for (const auto& chunk : placed.chunks)
      if (static_cast<std::size_t>(chunk.head.dataset) >= counts_.datasets)
        return make_error(Errc::malformed, "a chunk of dataset {} of {}", static_cast<std::size_t>(chunk.head.dataset),
                          counts_.datasets);
    return {};
  }

  /// Of all ranks, and of a recorder that was killed before.
  hdf5::FillLate fill_late() {
    return [this](LateColumnSink& out) -> Result<void> {
      PEN_ASSIGN(const auto sources, members_ ? members_->late_sources() : late_sources());
      const auto warn = [](const std::string& path, const std::string& why) {
        spdlog::warn("{}: values that the first frame lacks are not stored: {}", path, why);
      };
      // One file at a time has its values in memory, however many series end at once.
      static Mutex turn;
      const MutexLock lock(turn);
      PEN_ASSIGN(const auto damaged, copy_late_values(
                                         sources, [](auto) { return true; }, warn, out));
      if (damaged > 0)
        spdlog::error("{}: the storage changed {} segments that have values of frames; `penstock check` shows them",
                      path_, damaged);
      return {};
    };
  }

  Result<std::vector<LateSource>> late_sources() {
    PEN_ASSIGN(auto segments, find_values(*file_, shared_file_.id));
    std::vector<LateSource> sources;
    sources.push_back({path_, [this]() -> Result<std::shared_ptr<File>> { return file_; }, std::move(segments)});
    return sources;
  }

  /// A file without a seal is complete too: a full disk is no reason to call it incomplete.
  Result<void> seal(std::uint64_t end) {
    auto extents = std::move(sealed_);
    for (const auto& extent : space_.metadata_extents()) extents.push_back({extent.address, extent.bytes});
    const auto sealed = write_seal(*file_, shared_file_.id, std::move(extents), end);
    if (sealed.ok()) return {};
    spdlog::warn("the file gets no checksums of its structures: {}", sealed.error().message());
    return file_->truncate(end);
  }

  const StoreOptions options_;
  const Share share_;
  const std::shared_ptr<File> file_;  ///< buffered; holds the lock
  const Placement placement_;
  const std::shared_ptr<EndBesideSlots> beside_slots_;  ///< null but with slots
  Space space_;
  const LayoutCounts counts_;
  std::string path_;
  SharedFile shared_file_;
  std::vector<Extent> sealed_;  ///< what the seal covers beside HDF5's structures that are still to come
  Counters counters_;
  const std::shared_ptr<WriterShared> shared_;
  std::unique_ptr<hdf5::Indexer> indexer_;
  std::unique_ptr<MemberFiles> members_;  ///< of a master file, which has no pipeline
  bool finished_ = false;
};

}  // namespace

void Listener::already_there(std::span<const PlacedChunk> chunks) {
  lost(chunks,
       make_error(Errc::already_exists, "the file already has chunk {}, which is kept", chunks.front().head.index));
}

Result<std::unique_ptr<Store>> Store::create(Env& env, const std::string& path, const FileLayout& layout,
                                             const StoreOptions& options, Listener* listener, Share share) {
  PEN_TRY(check_options(options));
  PEN_TRY(check_layout(layout));
  // First of all, so that a file that has to stay leaves the others as they are.
  if (layout.members) PEN_TRY(check_member_names(env, path, *layout.members));
  PEN_ASSIGN(const auto replaced, claim(env, path, options.overwrite));
  PEN_ASSIGN(const auto file, make_replacement(env, path), "create {}", path);
  bool named = false;
  const auto name_it = [&]() -> Result<void> {
    PEN_TRY(take_name(env, *file, path, replaced.get()));
    named = true;
    return {};
  };
  // So that there is room for the new one, though the storage may be full.
  auto started = replaced ? replaced->truncate(0) : Result<void>{};
  const bool is_empty = replaced && started.ok();
  if (started.ok() && layout.members && layout.members->overwrite) started = remove_members(env, path, *layout.members);
  auto store = std::make_unique<OwnStore>(options, layout, file, std::move(share), 0);
  if (started.ok()) started = store->start(env, path, layout, listener, name_it);
  if (!started.ok()) {
    // What is left holds nothing, and would keep a second attempt from its name.
    if (file->still_named()) (void)env.remove(named ? path : replacement_path(path));
    if (!named && is_empty && replaced->still_named()) (void)env.remove(path);
    return std::move(started).error().with_context(fmt::format("create {}", path));
  }
  return std::unique_ptr<Store>(std::move(store));
}

Result<std::unique_ptr<Store>> Store::replace(Env& env, const std::string& path, const FileLayout& layout,
                                              const StoreOptions& options, Listener* listener, Share share,
                                              std::shared_ptr<File>& there) {
  PEN_TRY(check_options(options));
  PEN_TRY(check_layout(layout));
  if (layout.members) PEN_TRY(check_member_names(env, path, *layout.members));
  PEN_ASSIGN(const auto file, make_replacement(env, path), "create {}", path);
  bool named = false;
  const auto name_it = [&]() -> Result<void> {
    PEN_TRY(take_name(env, *file, path, there.get()));
    named = true;
    there = file;
    return {};
  };
  auto store = std::make_unique<OwnStore>(options, layout, file, std::move(share), 0);
  if (auto started = store->start(env, path, layout, listener, name_it); !started.ok()) {
    // Once it has the name it is a complete file, as the one that it replaced was.
    if (!named && file->still_named()) (void)env.remove(replacement_path(path));
    return std::move(started).error().with_context(fmt::format("create {}", path));
  }
  return std::unique_ptr<Store>(std::move(store));
}

Result<std::unique_ptr<Store>> Store::resume(Env& env, const std::string& path, const FileLayout& layout,
                                             const StoreOptions& options, Listener* listener, Share share,
                                             const SharedFile& file) {
  PEN_TRY(check_options(options));
  PEN_TRY(check_layout(layout));
  if (placement_of(layout) != Placement::log)
    return make_error(Errc::invalid_argument, "{} has fixed offsets; only a log can be resumed", path);
  PEN_ASSIGN(auto opened, env.open(path, {.mode = OpenOptions::Mode::update}));
  PEN_TRY(opened->lock(true));
  PEN_ASSIGN(const bool same, share::is_file(*opened, file));
  if (!same) return make_error(Errc::mismatch, "{} was replaced a moment ago", path);
  (void)remove_left_replacement(env, path, WithoutLocks::remove);
  PEN_ASSIGN(const auto left, unfinished_changes(*opened));
  PEN_TRY(make_changes(*opened, left.changes));
  PEN_ASSIGN(auto before, look_before(*opened, file.id));
  const auto used_bytes = align_up(before.end, page_bytes);
  if (share.end != nullptr) PEN_TRY(share.end->advance(used_bytes));
  auto store = std::make_unique<OwnStore>(options, layout, std::move(opened), std::move(share), used_bytes);
  PEN_TRY(store->go_on(env, path, layout, listener, file, std::move(before)), "go on in {}", path);
  return std::unique_ptr<Store>(std::move(store));
}

Result<std::unique_ptr<Store>> Store::join(Env& env, const std::string& path, const FileLayout& layout,
                                           const StoreOptions& options, Listener* listener, Share share,
                                           const SharedFile& file) {
  PEN_TRY(check_options(options));
  PEN_TRY(check_layout(layout));
  return share::join(env, path, layout, options, listener, std::move(share), file);
}

std::optional<std::vector<std::byte>> refusal_of(Bytes message, const std::string& why) {
  const auto decoded = share::decode(message);
  const auto* placed = decoded.ok() ? std::get_if<share::Placed>(&*decoded) : nullptr;
  if (placed == nullptr) return std::nullopt;
  return share::encode(share::Indexed{placed->id, {}, Error(Errc::cancelled, why)});
}

}  // namespace penstock::store
