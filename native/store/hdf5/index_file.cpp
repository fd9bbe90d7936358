#include "store/hdf5/index_file.hpp"

#include <algorithm>
#include <optional>

#include "store/hdf5/columns.hpp"
#include "store/hdf5/driver.hpp"
#include "store/hdf5/late_columns.hpp"
#include "store/hdf5/subsets.hpp"
#include "store/hdf5/tree.hpp"
#include "store/hdf5/values.hpp"
#include "store/hdf5/virtual.hpp"

namespace penstock::store::hdf5 {
namespace {

constexpr const char* members_path = "/entry/penstock/members";
constexpr const char* any_name = "penstock";  // the driver ignores it

/// A dataset of frames.
struct FrameDataset : Growing {
  ChunkedNode node;
  ChunkGrid grid = {};

  /// How long the first dimension is so that it has all frames of the chunk.
  std::uint64_t length_for(const ChunkHead& head) const {
    return node.frames_a_chunk() > 1 ? grid.length_for(head.index, head.frame) : grid.length_for(head.index);
  }
  /// Along the first dimension, of a series of so many frames.
  std::uint64_t length(std::uint64_t frames) const {
    return node.scan_shape.empty() ? frames : node.scan_shape.front();
  }
};

Result<Handle> access_list(hid_t driver, DriverContext& context) {
  PEN_ASSIGN(auto access, owned(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a file access list"));
  PEN_TRY(use_driver(access.get(), driver, context));
  PEN_TRY(done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110), "set the file's version"));
  PEN_TRY(done(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), "set the close degree"));
  // Otherwise HDF5 keeps about 9 KiB for each closed column. HDF5 for MPI-IO does not support it.
  H5E_BEGIN_TRY { (void)H5Pset_evict_on_close(access.get(), true); }
  H5E_END_TRY
  return access;
}

/// Space is taken from the driver for each object and never reused.
Result<Handle> creation_list() {
  PEN_ASSIGN(auto creation, owned(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "make a file creation list"));
  PEN_TRY(
      done(H5Pset_file_space_strategy(creation.get(), H5F_FSPACE_STRATEGY_NONE, false, 1), "set the space strategy"));
  return creation;
}

class IndexFileOfHdf5 final : public IndexFile, private LateColumnSink {
 public:
  IndexFileOfHdf5(std::shared_ptr<File> file, Space& space)
      : owned_context_(new DriverContext{.file = std::move(file), .space = space}), context_(*owned_context_) {}

  ~IndexFileOfHdf5() override {
    LibraryLock lock;
    {
      const WatchedCall watched(file_ ? context_.file->watching() : Watching{}, Call::hdf5_close);
      // After an error the file stays as it was: what HDF5 has in memory may be half of a change.
      if (close_file().ok() && !failed_) (void)context_.settle();
      (void)access_.close();
      (void)driver_.close();
    }
    if (context_.open_files > 0) abandon();
  }

  Result<void> make(const FileLayout& layout, const format::FileId& id) {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_create);
    return note(context_.outcome(make_all(layout, id)));
  }

  /// Before open(). Old structures may refer to what is behind the file's end, but nobody reads it there.
  Result<void> keep_until_finished(std::function<Result<void>()> before_changes) {
    context_.before_changes = std::move(before_changes);
    PEN_ASSIGN(const auto file_bytes, context_.file->size());
    const auto end = context_.space.end();
    if (file_bytes < end) context_.fresh.add(file_bytes, end - file_bytes);
    return {};
  }

  Result<void> open(const FileLayout& layout) {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_open);
    return note(context_.outcome(open_all(layout)));
  }

  Result<void> start(bool swmr) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_start);
    PEN_TRY(note(context_.outcome(start_all(swmr))));
    if (context_.before_changes) return {};
    PEN_TRY(context_.commit());
    // Whoever makes a file has to be told at once that there is no room for it.
    context_.waits_for_room = true;
    return {};
  }

  Result<void> admit_chunks() const override { return map_ ? Result<void>{} : context_.admit_chunks(); }

  Result<std::vector<std::size_t>> put_chunks(std::span<const PlacedChunk> chunks) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_chunks);
    std::vector<std::size_t> refused;
    PEN_TRY(note(context_.outcome(put_all(chunks, refused))));
    PEN_TRY(commit_much());
    return refused;
  }

  Result<void> put_rows(ColumnId column, RowRun rows, Bytes data) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_rows);
    PEN_TRY(note(context_.outcome(columns_.put(file_.get(), column, rows, data))));
    return commit_much();
  }

  Result<std::optional<std::vector<std::byte>>> row(ColumnId column, std::uint64_t number) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_rows);
    return columns_.row(file_.get(), column, number);
  }

  Result<void> flush() override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_flush);
    return context_.before_changes ? Result<void>{} : flush_all();
  }

  bool waits() const override { return context_.waits; }

  /// The lock is free while values are read from segments, so that other files go on.
  Result<void> finish(const FinalValues& values, const FillLate& fill_late) override {
    auto finished = finish_locked(values);
    // Files take turns to be filled, and what one holds while it waits would have the others flush at each step.
    if (finished.ok() && fill_late) finished = flush();
    if (finished.ok() && fill_late) finished = fill_late(*this);
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_close);
    if (auto closed = late_.close(); finished.ok()) finished = context_.outcome(std::move(closed));
    auto closed = close_file();
    // A file whose late columns could not be filled is left as if its recorder had been killed: `recover` fills them.
    const bool is_left = !finished.ok() && (fill_late || context_.before_changes);
    if (is_left) failed_ = true;
    auto settled = closed.ok() && !is_left ? context_.settle() : Result<void>{};
    PEN_TRY(finished);
    PEN_TRY(closed);
    return settled;
  }

 private:
  Result<void> finish_locked(const FinalValues& values) {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_close);
    rows_ = values.frames;
    return context_.outcome(finish_all(values));
  }

  Result<bool> prepare(const ColumnNode& column) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_rows);
    const auto is_own = [&](const auto& node) { return node.path == column.path; };
    if (std::any_of(chunked_.begin(), chunked_.end(), is_own)) return false;
    auto prepared = late_.prepare(file_.get(), column, rows_);
    PEN_TRY(note(context_.outcome(prepared.ok() ? Result<void>{} : Result<void>(prepared.error()))));
    PEN_TRY(commit_late());
    return prepared;
  }

  Result<void> put(const ColumnNode& column, std::uint64_t first, Bytes rows) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_rows);
    PEN_TRY(note(context_.outcome(late_.put(file_.get(), column, first, rows))));
    return commit_late();
  }

  Result<void> mark(const ColumnNode& column, const Attribute& attribute) override {
    LibraryLock lock;
    const WatchedCall watched(context_.file->watching(), Call::hdf5_write_rows);
    PEN_TRY(note(context_.outcome(late_.close())));
    return note(context_.outcome(write_attributes(file_.get(), column.path, std::span(&attribute, 1))));
  }

  Result<void> note(Result<void> outcome) {
    if (!outcome.ok() && outcome.error().code() != Errc::invalid_argument) failed_ = true;
    return outcome;
  }

  /// What readers see, and what a recovery finds, is as of the last time that HDF5 had written all it knows.
  Result<void> flush_all() {
    PEN_TRY(note(context_.outcome(done(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush the file"))));
    return context_.commit();
  }

  /// What is held between two flushes is bounded.
  Result<void> commit_much() { return context_.holds_much() && !context_.waits ? flush_all() : Result<void>{}; }

  /// The same while the file is being closed, when nothing can wait for room until it is there.
  Result<void> commit_late() {
    if (!context_.holds_much()) return {};
    PEN_TRY(flush_all());
    return context_.waits ? make_error(Errc::no_space, "no space left for values that begin with a later frame")
                          : Result<void>{};
  }

  /// HDF5 could not close the file. It keeps it, and asks the driver when it looks for others that are open: what the
  /// driver needs for that stays for good, and nothing reaches the file any more.
  void abandon() {
    if (!context_.failure) context_.failure = make_error(Errc::hdf5, "the file could not be closed");
    context_.file.reset();
    context_.in_fresh_space.clear();
    context_.changes.clear();
    (void)owned_context_.release();
  }

  Result<void> make_all(const FileLayout& layout, const format::FileId& id) {
    PEN_ASSIGN(driver_, register_driver());
    PEN_ASSIGN(access_, access_list(driver_.get(), context_));
    PEN_ASSIGN(const auto creation, creation_list());
    context_.looks_empty = true;
    PEN_ASSIGN(context_.journal, Journal::attach(*context_.file, context_.space, id));
    PEN_ASSIGN(file_,
               owned(H5Fcreate(any_name, H5F_ACC_TRUNC, creation.get(), access_.get()), H5Fclose, "create the file"));
    PEN_TRY(make_tree(file_.get(), layout, context_));
    const Attribute marks[] = {{"penstock_file_id", format::to_hex(id)},
                               {"penstock_format", scalar(std::uint64_t{format::version})}};
    PEN_TRY(write_attributes(file_.get(), "/", marks));
    PEN_TRY(take_over(layout));
    return done(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush the file");
  }

  Result<void> take_over(const FileLayout& layout) {
    if (layout.members) {
      map_.emplace(layout.chunked.size(), *layout.members);
      layout_ = {.groups = {},
                 .values = {},
                 .chunked = layout.chunked,
                 .columns = {},
                 .links = layout.links,
                 .members = layout.members};
    } else {
      for (const auto& node : layout.chunked) {
        PEN_ASSIGN(auto grid, node.grid());
        chunked_.push_back({{node.path}, node, std::move(grid)});
      }
    }
    for (const auto& node : layout.columns) columns_.add(node);
    if (layout.subsets) subsets_.emplace(layout);
    return {};
  }

  Result<void> open_all(const FileLayout& layout) {
    PEN_ASSIGN(driver_, register_driver());
    PEN_ASSIGN(access_, access_list(driver_.get(), context_));
    PEN_ASSIGN(context_.journal, Journal::attach(*context_.file, context_.space, std::nullopt));
    const hbool_t clear = true;  // what h5clear asks for
    PEN_TRY(done(H5Pset(access_.get(), "clear_status_flags", &clear), "ask to clear the file's marks"));
    // Nobody else writes: what is not whole now never will be, and is an error rather than something to wait for.
    PEN_TRY(done(H5Pset_metadata_read_attempts(access_.get(), 1), "set the number of attempts to read structures"));
    PEN_ASSIGN(file_, owned(H5Fopen(any_name, H5F_ACC_RDWR, access_.get()), H5Fclose, "open the file"));
    left_ = true;
    return take_over(layout);
  }

  Result<void> start_all(bool swmr) {
    if (swmr) PEN_TRY(left_ ? open_for_swmr() : done(H5Fstart_swmr_write(file_.get()), "let readers in"));
    return open_datasets(0);
  }

  /// H5Fstart_swmr_write would have HDF5 read damaged structures a hundred times, in intervals that double.
  Result<void> open_for_swmr() {
    PEN_TRY(close_file());
    PEN_ASSIGN(file_, owned(H5Fopen(any_name, H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access_.get()), H5Fclose,
                            "open the file for readers beside"));
    return {};
  }

  /// The columns have so many rows then.
  Result<void> open_datasets(std::uint64_t rows) {
    for (auto& node : chunked_) {
      PEN_ASSIGN(node.dataset, open_chunked(file_.get(), node.path));
      PEN_TRY(node.measure());
      if (node.dimensions.size() != node.grid.chunk().size())
        return make_error(Errc::mismatch, "{} has {} dimensions; its description says {}", node.path,
                          node.dimensions.size(), node.grid.chunk().size());
    }
    return columns_.open(file_.get(), rows);
  }

  /// Flushes first: of that HDF5 can report an error and still close the file.
  Result<void> close_file() {
    if (!file_) return {};
    auto closed = done(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flush the file");
    for (auto& node : chunked_) (void)node.dataset.close();
    columns_.close();
    if (!file_.close() && closed.ok()) closed = library_error("close the file");
    return context_.outcome(std::move(closed));
  }

  /// The extents first, once for all chunks.
  Result<void> put_all(std::span<const PlacedChunk> chunks, std::vector<std::size_t>& refused) {
    if (map_) return note_all(chunks, refused);
    for (std::size_t i = 0; i < chunked_.size(); ++i) {
      std::uint64_t rows = 0;
      for (const auto& chunk : chunks)
        if (static_cast<std::size_t>(chunk.head.dataset) == i)
          rows = std::max(rows, chunked_[i].length_for(chunk.head));
      PEN_TRY(chunked_[i].grow(rows));
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      PEN_ASSIGN(const bool entered, put_chunk(chunks[i]));
      if (!entered) refused.push_back(i);
    }
    return {};
  }

  /// Of a master file: which member has them.
  Result<void> note_all(std::span<const PlacedChunk> chunks, std::vector<std::size_t>& refused) {
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto& head = chunks[i].head;
      PEN_ASSIGN(const bool entered, map_->note(static_cast<std::size_t>(head.dataset), head.index, chunks[i].rank));
      if (!entered) refused.push_back(i);
    }
    return {};
  }

  Result<void> complete_virtual_datasets(std::uint64_t frames) {
    if (!map_) return {};
    frames = std::max(frames, map_->end());
    for (std::size_t i = 0; i < layout_.chunked.size(); ++i) {
      const auto& node = layout_.chunked[i];
      std::vector<LinkNode> links;
      for (const auto& link : layout_.links)
        if (link.target == node.path) links.push_back(link);
      PEN_TRY(complete_virtual(file_.get(), node, *layout_.members, map_->runs(i), frames, links), "{}", node.path);
    }
    std::vector<std::string> names;
    for (const auto member : map_->members()) names.push_back(layout_.members->file_name(member));
    return write_value(
        file_.get(),
        {members_path, std::move(names), {{"description", std::string("files that hold the frames, in this folder")}}});
  }

  Result<bool> put_chunk(const PlacedChunk& chunk) {
    auto& node = chunked_[static_cast<std::size_t>(chunk.head.dataset)];
    std::uint64_t first[H5S_MAX_RANK] = {};
    node.grid.offset_of(chunk.head.index, first);
    hsize_t offset[H5S_MAX_RANK];
    std::copy(std::begin(first), std::end(first), offset);
    context_.placement = DriverContext::Placement{chunk.address, chunk.size, false};
    // The bytes are on storage: HDF5 hands this pointer through to the driver, which drops it.
    static const std::byte nothing{};
    const auto status =
        H5Dwrite_chunk(node.dataset.get(), H5P_DEFAULT, chunk.head.filter_mask, offset, chunk.size, &nothing);
    const bool entered = context_.placement->taken;
    context_.placement.reset();
    if (status < 0) return library_error(fmt::format("enter chunk {} of {}", chunk.head.index, node.path));
    return entered;
  }

  /// Closing and opening again is the only way out of SWMR.
  Result<void> finish_all(const FinalValues& values) {
    PEN_TRY(close_file());
    PEN_ASSIGN(file_, owned(H5Fopen(any_name, H5F_ACC_RDWR, access_.get()), H5Fclose, "open the file again"));
    PEN_TRY(open_datasets(values.frames));
    for (auto& node : chunked_) PEN_TRY(node.grow(node.length(values.frames)));
    PEN_TRY(complete_virtual_datasets(values.frames));
    if (subsets_) PEN_TRY(subsets_->complete(file_.get(), columns_));
    for (const auto& group : values.groups) {
      PEN_TRY(make_group(file_.get(), group.path));
      PEN_TRY(write_attributes(file_.get(), group.path, group.attributes));
    }
    for (const auto& node : values.values) PEN_TRY(write_value(file_.get(), node));
    for (const auto& link : values.links) PEN_TRY(replace_link(file_.get(), link));
    for (const auto& [path, attribute] : values.attributes)
      PEN_TRY(write_attributes(file_.get(), path, std::span(&attribute, 1)));
    if (!values.of_rows) return {};
    for (const auto& [path, attribute] : values.of_rows())
      PEN_TRY(write_attributes(file_.get(), path, std::span(&attribute, 1)));
    return {};
  }

  std::unique_ptr<DriverContext> owned_context_;
  DriverContext& context_;
  Handle driver_;
  Handle access_;
  Handle file_;
  std::vector<FrameDataset> chunked_;  ///< none in a master file
  bool left_ = false;                  ///< by another writer
  bool failed_ = false;                ///< a call that changes the file
  std::optional<MemberMap> map_;       ///< of a master file
  FileLayout layout_;                  ///< of a master file
  Columns columns_;
  std::optional<Subsets> subsets_;
  LateColumns late_;
  std::uint64_t rows_ = 0;  ///< of a file that is being closed
};

}  // namespace

Result<std::unique_ptr<IndexFile>> IndexFile::create(std::shared_ptr<File> file, Space& space, const FileLayout& layout,
                                                     const format::FileId& id) {
  auto created = std::make_unique<IndexFileOfHdf5>(std::move(file), space);
  PEN_TRY(created->make(layout, id));
  return std::unique_ptr<IndexFile>(std::move(created));
}

Result<std::unique_ptr<IndexFile>> IndexFile::open_to_complete(std::shared_ptr<File> file, Space& space,
                                                               const FileLayout& layout,
                                                               std::function<Result<void>()> before_changes) {
  auto opened = std::make_unique<IndexFileOfHdf5>(std::move(file), space);
  PEN_TRY(opened->keep_until_finished(std::move(before_changes)));
  PEN_TRY(opened->open(layout));
  return std::unique_ptr<IndexFile>(std::move(opened));
}

Result<std::unique_ptr<IndexFile>> IndexFile::open(std::shared_ptr<File> file, Space& space, const FileLayout& layout) {
  auto opened = std::make_unique<IndexFileOfHdf5>(std::move(file), space);
  PEN_TRY(opened->open(layout));
  return std::unique_ptr<IndexFile>(std::move(opened));
}

}  // namespace penstock::store::hdf5
