#include "store/share/joined_store.hpp"

#include "base/time/clock.hpp"
#include "store/format/description.hpp"
#include "store/members/member_files.hpp"
#include "store/share/remote_index.hpp"
#include "store/writer.hpp"

namespace penstock::store::share {
namespace {

constexpr unsigned lead = 0;

/// Whether the path leads to the file that the lead made: its first segment bears the file's identity.
Result<std::optional<format::SegmentHeader>> description_header(File& file, const SharedFile& expected) {
  std::vector<std::byte> head(format::header_size_bytes);
  PEN_ASSIGN(const auto count, file.read_at(head, expected.description_address));
  if (count < head.size()) return std::optional<format::SegmentHeader>();
  auto header = format::decode_header(head, expected.description_address);
  if (!header.ok() || header->file_id != expected.id) return std::optional<format::SegmentHeader>();
  return std::optional(*header);
}

Result<format::SegmentHeader> recognise(File& file, const std::string& path, const Share& share,
                                        const SharedFile& expected) {
  PEN_ASSIGN(const auto header, description_header(file, expected));
  if (header) return *header;
  return make_error(Errc::mismatch,
                    "rank {} finds another file at {} than rank 0 made; the folder must be on a file system that all "
                    "machines of the job share",
                    share.rank, path);
}

/// The layout with the places that the lead gave its datasets, which stand in the file's description.
Result<FileLayout> with_places(File& file, const format::SegmentHeader& header, FileLayout layout) {
  std::vector<std::byte> region(header.header_bytes);
  PEN_ASSIGN(const auto count, file.read_at(region, header.address));
  if (count < region.size()) return make_error(Errc::truncated, "the file's description is incomplete");
  PEN_ASSIGN(const auto text, format::decode_description(header, region));
  PEN_ASSIGN(const auto description, format::parse_description(text));
  if (description.datasets.size() != layout.chunked.size())
    return make_error(Errc::mismatch, "the file has {} datasets of frames, this rank expects {}",
                      description.datasets.size(), layout.chunked.size());
  for (std::size_t i = 0; i < layout.chunked.size(); ++i) layout.chunked[i].places = description.datasets[i].places;
  return layout;
}

class JoinedStore final : public Store {
 public:
  JoinedStore(std::string path, const StoreOptions& options, const FileLayout& layout, std::shared_ptr<File> file,
              Share share, Listener* listener)
      : path_(std::move(path)),
        share_(std::move(share)),
        file_(std::move(file)),
        space_(file_, {options.extent_bytes, options.alignment_bytes}, share_.end),
        shared_(std::make_shared<WriterShared>(options, layout, share_)),
        index_([this](std::vector<std::byte> message) { share_.send(lead, std::move(message)); }, options, listener,
               counters_) {}

  ~JoinedStore() override {
    if (shared_->pipeline) shared_->pipeline->drain();
  }

  void start(std::shared_ptr<File> data, const StoreOptions& options, const SharedFile& file,
             const FileLayout& layout) {
    shared_->pipeline = std::make_unique<Pipeline>(std::move(data), space_, file.id, options, sequences(share_, file),
                                                   fixed_places(layout), counters_,
                                                   [this](WrittenSegment segment) { index_.push(std::move(segment)); });
  }

  void start_members(Env& env, const std::string& path, const FileLayout& layout, const StoreOptions& options) {
    members_ = std::make_unique<MemberFiles>(env, path, layout, options, share_.rank,
                                             [this](WrittenSegment segment) { index_.push(std::move(segment)); });
  }

  std::unique_ptr<ChunkWriter> make_writer() override {
    return members_ ? members_->make_writer() : make_chunk_writer(shared_);
  }

  void hurry() override { members_ ? members_->hurry() : shared_->pipeline->hurry(); }

  StoreStats stats() const override { return stats_of(counters_, shared_->pipeline.get(), members_.get()); }

  std::string lost_file() const override { return store::lost_file(path_, *file_, members_.get()); }
  bool was_moved() const override { return file_->was_moved() && (!members_ || members_->lost_file().empty()); }
  SharedFile shared_file() const override { return {}; }
  std::shared_ptr<File> file() const override { return file_; }

  Result<void> receive(unsigned from, Bytes bytes) override {
    PEN_ASSIGN(auto message, decode(bytes), "rank {}", from);
    auto* answer = std::get_if<Indexed>(&message);
    if (answer == nullptr || from != lead)
      return make_error(Errc::malformed, "rank {} sends rank {} a message for rank 0", from, share_.rank);
    return index_.answered(std::move(*answer));
  }

  /// The lead completes the file; `values` are its own.
  Result<void> finish(const FinalValues& values) override {
    auto written = members_ ? members_->finish(values.frames) : Result<void>{};
    if (!members_) shared_->pipeline->drain();
    auto indexed = index_.drain();
    space_.release_unused();
    share_.send(lead, encode(Left{space_.end()}));
    PEN_TRY(indexed);
    PEN_TRY(written);
    const auto started = monotonic_ns();
    PEN_TRY(file_->sync());
    counters_.sync_ns += monotonic_ns() - started;
    return {};
  }

 private:
  const std::string path_;
  const Share share_;
  const std::shared_ptr<File> file_;  ///< buffered; the lead holds the lock
  Space space_;
  Counters counters_;
  const std::shared_ptr<WriterShared> shared_;
  RemoteIndex index_;
  std::unique_ptr<MemberFiles> members_;  ///< of a master file; then there is no pipeline
};

}  // namespace

Result<bool> is_file(File& file, const SharedFile& expected) {
  PEN_ASSIGN(const auto header, description_header(file, expected));
  return header.has_value();
}

Result<std::unique_ptr<Store>> join(Env& env, const std::string& path, const FileLayout& planned,
                                    const StoreOptions& options, Listener* listener, Share share,
                                    const SharedFile& expected) {
  PEN_ASSIGN(auto file, env.open(path, {.mode = OpenOptions::Mode::update}));
  PEN_ASSIGN(const auto header, recognise(*file, path, share, expected));
  PEN_ASSIGN(const auto layout, with_places(*file, header, planned));
  auto data = file;
  if (options.direct && !layout.members) {
    PEN_ASSIGN(data, open_direct(env, *file, path));
  }
  auto store = std::make_unique<JoinedStore>(path, options, layout, std::move(file), std::move(share), listener);
  if (layout.members)
    store->start_members(env, path, layout, options);
  else
    store->start(std::move(data), options, expected, layout);
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace penstock::store::share
