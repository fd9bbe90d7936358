#include "store/recovery/journal.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "base/crc32c.hpp"
#include "base/time/clock.hpp"
#include "store/recovery/journal_place.hpp"
#include "store/recovery/own_superblock.hpp"
#include "store/recovery/scan.hpp"

namespace penstock::store {
namespace {

constexpr std::size_t change_head_bytes = 16;  // address and size
constexpr std::uint64_t extent_bytes_min = 64 << 10;
/// What HDF5 changes between two commits is far less; it bounds what a damaged journal costs.
constexpr std::uint64_t batch_bytes_max = std::uint64_t{1} << 27;
constexpr std::size_t changes_max = 1 << 20;
/// The first segment lies right behind HDF5's first structures.
constexpr std::uint64_t searched_bytes = 64 << 20;
/// On a full disk structures may end behind the end of the file.
constexpr std::uint64_t behind_end_max = std::uint64_t{1} << 30;
constexpr std::size_t in_page_at = format::header_size_bytes + format::journal_body_bytes;

std::uint64_t page_of(std::uint64_t sequence) { return journal_address + sequence % 2 * page_bytes; }

struct Newest {
  format::SegmentHeader header;
  format::JournalBody body;
};

struct Pages {
  std::optional<Newest> newest;
  int damaged = 0;  ///< written, and not valid; of a file that was left one may be
};

/// Pages with another file's id, which may be left from what lay on the storage before, are not valid.
Result<Pages> read_pages(File& file, const std::optional<format::FileId>& id) {
  Pages pages;
  std::array<std::byte, page_bytes> page;
  for (std::uint64_t address = journal_address; address < journal_end; address += page_bytes) {
    PEN_ASSIGN(const auto count, file.read_at(page, address));
    if (count < page.size()) break;
    const auto header = format::decode_header(page, address);
    const bool own = header.ok() && header->kind == format::SegmentKind::journal &&
                     page_of(header->sequence) == address && (!id || header->file_id == *id);
    const auto body =
        own ? format::decode_journal(*header, page) : Result<format::JournalBody>(Error(Errc::corrupt, {}));
    if (!body.ok())
      pages.damaged += is_zero(page) ? 0 : 1;
    else if (!pages.newest || pages.newest->header.sequence < header->sequence)
      pages.newest = Newest{*header, *body};
  }
  return pages;
}

/// That of its first segment. Nothing where its start has none, so that nothing can be compared with it.
Result<std::optional<format::FileId>> id_of(File& file) {
  ScanOptions options;
  options.end = searched_bytes;
  PEN_ASSIGN(auto scanner, SegmentScanner::create(file, options));
  PEN_ASSIGN(const auto first, scanner.next());
  return first ? std::optional(first->file_id) : std::nullopt;
}

Result<bool> is_closed(File& file) {
  PEN_ASSIGN(const auto superblock, read_own_superblock(file));
  return superblock && !superblock->open_for_writing;
}

Result<std::vector<Change>> parse(Bytes batch, std::uint32_t count, std::uint64_t end_max) {
  std::vector<Change> changes;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (batch.size() < change_head_bytes) return make_error(Errc::corrupt, "the journal ends within change {}", i);
    const auto address = load_le<std::uint64_t>(batch.data());
    const auto size = load_le<std::uint64_t>(batch.data() + 8);
    batch = batch.subspan(change_head_bytes);
    if (size > batch.size() || address > end_max || size > end_max - address)
      return make_error(Errc::corrupt, "the journal's change {} is of {} bytes at offset {}", i, size, address);
    changes.push_back({address, {batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(size)}});
    batch = batch.subspan(std::min<std::size_t>(align_up(size, 8), batch.size()));
  }
  return changes;
}

/// What they come to: rising, and none reaches into the next. Of two changes of the same bytes the later one counts.
std::vector<Change> merged(const std::vector<Change>& changes) {
  std::map<std::uint64_t, Bytes> laid;  // from the last change on: what is there stays
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    const auto end = change->end();
    auto at = change->address;
    auto next = laid.upper_bound(at);
    if (next != laid.begin()) at = std::max(at, std::prev(next)->first + std::prev(next)->second.size());
    while (at < end) {
      const auto until = next == laid.end() ? end : std::min(end, next->first);
      if (at < until) laid.emplace_hint(next, at, Bytes(change->bytes).subspan(at - change->address, until - at));
      if (next == laid.end()) break;
      at = next->first + next->second.size();
      ++next;
    }
  }
  std::vector<Change> stretches;
  stretches.reserve(laid.size());
  for (const auto& [address, bytes] : laid) stretches.push_back({address, {bytes.begin(), bytes.end()}});
  return stretches;
}

/// `changes` are merged.
void lay_over(std::span<const Change> changes, MutableBytes bytes, std::uint64_t address) {
  const auto ends_before = [](const Change& change, std::uint64_t at) { return change.end() <= at; };
  const auto first = std::lower_bound(changes.begin(), changes.end(), address, ends_before);
  for (auto change = first; change != changes.end() && change->address < address + bytes.size(); ++change) {
    const auto from = std::max(address, change->address);
    const auto to = std::min(address + bytes.size(), change->end());
    std::memcpy(bytes.data() + (from - address), change->bytes.data() + (from - change->address), to - from);
  }
}

/// `changes` are merged.
Result<bool> are_in_place(File& file, std::span<const Change> changes) {
  std::vector<std::byte> there;
  for (const auto& change : changes) {
    there.resize(change.bytes.size());
    PEN_ASSIGN(const auto count, file.read_at(there, change.address));
    if (count < there.size() || there != change.bytes) return false;
  }
  return true;
}

/// `corrupt` where the batch is not whole: only a loss of power leaves one so, and then nothing is known of what is in
/// place.
Result<std::vector<Change>> changes_of(File& file, const Newest& newest) {
  PEN_ASSIGN(const auto file_bytes, file.size());
  const auto& [header, body] = newest;
  if (header.record_count == 0) return std::vector<Change>();
  if (header.record_count > changes_max || body.bytes > batch_bytes_max || body.address > file_bytes ||
      body.bytes > file_bytes - body.address)
    return make_error(Errc::corrupt, "{} changes of {} bytes at offset {}, in a file of {} bytes", header.record_count,
                      body.bytes, body.address, file_bytes);
  std::vector<std::byte> batch(body.bytes);
  PEN_ASSIGN(const auto count, file.read_at(batch, body.address));
  if (count < batch.size() || crc32c(batch) != body.crc)
    return make_error(Errc::corrupt, "its changes at offset {} do not match their checksum", body.address);
  PEN_ASSIGN(const auto parsed, parse(batch, header.record_count, file_bytes + behind_end_max));
  return merged(parsed);
}

class ChangedFile final : public File {
 public:
  ChangedFile(std::shared_ptr<File> file, std::vector<Change> changes)
      : file_(std::move(file)), changes_(std::move(changes)) {
    if (!changes_.empty()) end_ = changes_.back().end();
  }

  Result<std::size_t> read_at(MutableBytes into, std::uint64_t offset) override {
    PEN_ASSIGN(auto count, file_->read_at(into, offset));
    if (count < into.size() && offset + count < end_) {
      const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), end_ - offset));
      std::memset(into.data() + count, 0, more - count);
      count = more;
    }
    lay_over(changes_, into.first(count), offset);
    return count;
  }
  void will_read(std::uint64_t offset, std::uint64_t size) override { file_->will_read(offset, size); }
  Result<void> write_at(std::span<const iovec>, std::uint64_t) override {
    return make_error(Errc::internal, "the file is open for reading only");
  }
  Result<void> sync() override { return file_->sync(); }
  Result<void> sync_name() override { return file_->sync_name(); }
  Result<void> truncate(std::uint64_t size) override { return file_->truncate(size); }
  Result<void> reserve(std::uint64_t offset, std::uint64_t size) override { return file_->reserve(offset, size); }
  std::uint64_t next_data(std::uint64_t offset) override { return file_->next_data(offset); }
  bool reserves() const override { return file_->reserves(); }
  bool locks() const override { return file_->locks(); }
  Result<std::uint64_t> size() override {
    PEN_ASSIGN(const auto size, file_->size());
    return std::max(size, end_);
  }
  Result<void> lock(bool exclusive) override { return file_->lock(exclusive); }
  Result<void> unlock() override { return file_->unlock(); }
  bool direct() const override { return file_->direct(); }
  int descriptor() const override { return file_->descriptor(); }
  bool still_named() const override { return file_->still_named(); }
  Result<FileIdentity> identity() const override { return file_->identity(); }
  Result<void> close() override { return file_->close(); }
  Watching watching() const override { return file_->watching(); }

 private:
  const std::shared_ptr<File> file_;
  const std::vector<Change> changes_;
  std::uint64_t end_ = 0;
};

/// Nothing stands there yet.
Result<bool> is_new(File& file) {
  std::array<std::byte, journal_end> front;
  PEN_ASSIGN(const auto count, file.read_at(front, 0));
  const auto read = Bytes(front).first(count);
  return is_zero(read.first(std::min<std::size_t>(count, 8))) &&
         is_zero(read.subspan(std::min<std::size_t>(count, journal_address)));
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::attach(File& file, Space& space, std::optional<format::FileId> id) {
  auto own_id = id;
  if (!own_id) {
    PEN_ASSIGN(own_id, id_of(file));
  }
  PEN_ASSIGN(const auto pages, read_pages(file, own_id));
  if (const auto& newest = pages.newest)
    return std::unique_ptr<Journal>(new Journal(file, space, newest->header.file_id, newest->header.sequence));
  PEN_ASSIGN(const bool fresh, is_new(file));
  if (!id || !fresh) return std::unique_ptr<Journal>();
  auto journal = std::unique_ptr<Journal>(new Journal(file, space, *id, 1));
  journal->clear_ = true;
  return journal;
}

Result<void> Journal::write(std::span<const Change* const> changes, const BeforePage& before_page) {
  if (changes.size() > changes_max) return make_error(Errc::too_large, "a batch of {} changes", changes.size());
  std::uint64_t bytes = 0;
  for (const auto* change : changes) bytes += change_head_bytes + align_up(change->bytes.size(), 8);
  if (bytes > batch_bytes_max) return make_error(Errc::too_large, "a batch of {} bytes", bytes);
  std::vector<std::byte> batch(bytes);
  auto* at = batch.data();
  for (const auto* change : changes) {
    store_le(at, change->address);
    store_le(at + 8, std::uint64_t{change->bytes.size()});
    std::memcpy(at + change_head_bytes, change->bytes.data(), change->bytes.size());
    at += change_head_bytes + align_up(change->bytes.size(), 8);
  }
  return write_page(batch, changes.size(), before_page);
}

Result<void> Journal::clear() { return clear_ ? Result<void>{} : write_page({}, 0); }

Result<void> Journal::write_page(const std::vector<std::byte>& batch, std::size_t changes,
                                 const BeforePage& before_page) {
  const auto sequence = sequence_ + 1;
  const auto address = page_of(sequence);
  alignas(8) std::array<std::byte, page_bytes> page{};
  format::JournalBody body{address + in_page_at, batch.size(), crc32c(batch)};
  if (batch.size() <= page.size() - in_page_at) {
    std::copy(batch.begin(), batch.end(), page.begin() + in_page_at);
  } else {
    auto& extent = extents_[sequence % 2];
    if (extent.bytes < batch.size()) {
      const auto wanted = std::max(extent_bytes_min, std::bit_ceil(std::uint64_t{batch.size()}));
      PEN_ASSIGN(const auto taken, space_.take_segment(wanted));
      extent = {taken, wanted};
    }
    body.address = extent.address;
    PEN_TRY(write_at(file_, batch, extent.address));
  }
  format::SegmentHeader header;
  header.file_id = id_;
  header.sequence = sequence;
  header.record_count = static_cast<std::uint32_t>(changes);
  header.created_ns = realtime_ns();
  header.address = address;
  format::encode_journal(header, body, page);
  if (before_page) PEN_TRY(before_page());
  PEN_TRY(write_at(file_, page, address));
  sequence_ = sequence;
  clear_ = changes == 0;
  return {};
}

Result<LeftJournal> unfinished_changes(File& file) {
  PEN_ASSIGN(const bool closed, is_closed(file));
  if (closed) return LeftJournal{};
  PEN_ASSIGN(auto pages, read_pages(file, std::nullopt));
  if (pages.newest) {
    PEN_ASSIGN(const auto id, id_of(file));
    PEN_ASSIGN(pages, read_pages(file, id));
  }
  if (!pages.newest) return LeftJournal{{}, pages.damaged > 1 ? "neither of its two pages is valid" : ""};
  auto changes = changes_of(file, *pages.newest);
  if (!changes.ok() && changes.error().code() != Errc::corrupt) return std::move(changes).error();
  if (!changes.ok()) return LeftJournal{{}, changes.error().message()};
  PEN_ASSIGN(const bool in_place, are_in_place(file, *changes));
  return LeftJournal{in_place ? std::vector<Change>() : std::move(*changes), {}};
}

Result<void> make_changes(File& file, std::span<const Change> changes) {
  PEN_ASSIGN(const auto superblock, read_own_superblock(file));
  const auto first = superblock ? own_superblock_bytes : 0;
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    if (change->end() <= first) continue;
    const auto from = std::max(change->address, first);
    PEN_TRY(write_at(file, Bytes(change->bytes).subspan(from - change->address), from));
  }
  return {};
}

std::shared_ptr<File> with_changes(std::shared_ptr<File> file, std::vector<Change> changes) {
  if (changes.empty()) return file;
  return std::make_shared<ChangedFile>(std::move(file), std::move(changes));
}

}  // namespace penstock::store
