#include "store/hdf5/driver.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "store/recovery/own_superblock.hpp"

namespace penstock::store::hdf5 {
namespace {

/// What HDF5 holds of an open file; its own part comes first.
struct OpenFile {
  H5FD_t library_part;
  DriverContext* context;
};

/// What a property list carries; HDF5 copies it byte by byte.
struct DriverInfo {
  DriverContext* context;
};

/// Addresses from here on are given out when the file has failed: no file reaches them.
constexpr haddr_t discarded_address = haddr_t{1} << 60;

/// Of what is held. On a full disk it is what HDF5 writes at each flush: not only what is new, but also each time that
/// it writes a block again. From here on no more chunks are put …
constexpr std::uint64_t held_bytes_max = 64 << 20;
/// … which leaves room for rows of frames that are in the index. More than this is an error of the file.
constexpr std::uint64_t held_bytes_limit = 4 * held_bytes_max;
/// From here on a file commits its changes.
constexpr std::uint64_t changes_bytes_much = 8 << 20;
/// The same for a file that is kept as it was.
constexpr std::uint64_t kept_bytes_much = 32 << 20;
/// In new space more than this is not held, and longer writes not at all.
constexpr std::uint64_t fresh_bytes_max = 4 << 20;
/// While all files hold more than this, each commits what is worth it.
constexpr std::uint64_t all_bytes_much = 8 << 20;
constexpr std::uint64_t commit_bytes_min = 256 << 10;
constexpr std::uint64_t held_write_bytes_max = 64 << 10;
constexpr std::uint64_t write_bytes_max = 1 << 20;
constexpr std::uint64_t superblock_bytes = 48;

DriverContext& context_of(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file)->context; }

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenFile{};
  if (file == nullptr) return nullptr;
  file->context = info->context;
  ++file->context->open_files;
  return &file->library_part;
}

herr_t close_file(H5FD_t* file) {
  --context_of(file).open_files;
  delete reinterpret_cast<OpenFile*>(file);
  return 0;
}

int compare(const H5FD_t* one, const H5FD_t* other) {
  const auto a = reinterpret_cast<std::uintptr_t>(&context_of(one));
  const auto b = reinterpret_cast<std::uintptr_t>(&context_of(other));
  return a < b ? -1 : (a > b ? 1 : 0);
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  // No aggregation: each address is the space's to choose. The bytes are those of any HDF5 file.
  // H5FD_FEAT_ACCUMULATE_METADATA would be wrong. HDF5 reads beyond the end of a structure into its accumulator, which
  // writes of raw data bypass. When it later writes the accumulator, it overwrites raw data between two structures with
  // the bytes of before. Other drivers keep raw data and structures apart; this one does not.
  if (flags != nullptr) *flags = H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t discard(DriverContext& context, hsize_t size) {
  const auto address = discarded_address + context.discarded_bytes;
  context.discarded_bytes += align_up(size, 8);
  return address;
}

haddr_t allocate(H5FD_t* file, H5FD_mem_t type, hid_t, hsize_t size) {
  auto& context = context_of(file);
  context.looks_empty = false;
  if (context.failure) return discard(context, size);
  if (type == H5FD_MEM_DRAW && context.placement) {
    if (!context.placement->taken && context.placement->bytes == size) {
      context.placement->taken = true;
      return context.placement->address;
    }
    context.failure =
        make_error(Errc::internal, "HDF5 asked for {} bytes for a chunk of {}", size, context.placement->bytes);
    return discard(context, size);
  }
  auto address = context.space.take_metadata(size);
  if (!address.ok() && context.waits_for_room && address.error().code() == Errc::no_space)
    address = context.space.take_metadata_unbacked(size);
  if (address.ok()) {
    // The superblock is what refers to everything.
    const auto from = std::max(*address, superblock_bytes);
    const auto end = *address + align_up(size, 8);
    if (from < end) context.fresh.add(from, end - from);
    return *address;
  }
  context.failure = std::move(address).error();
  return discard(context, size);
}

/// Space that HDF5 gives up is not used again: a reader may still follow an old reference to it.
herr_t free_nothing(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, hsize_t) { return 0; }

haddr_t end_of_space(const H5FD_t* file, H5FD_mem_t) {
  const auto& context = context_of(file);
  if (context.looks_empty) return 0;
  return context.failure ? discarded_address + context.discarded_bytes + 8 : context.space.end();
}

/// HDF5 tells what it read from the superblock; the space knows better.
herr_t keep_end_of_space(H5FD_t*, H5FD_mem_t, haddr_t) { return 0; }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t size, void* into) {
  auto& context = context_of(file);
  if (context.file == nullptr) return -1;
  const MutableBytes bytes(static_cast<std::byte*>(into), size);
  auto count = context.file->read_at(bytes, address);
  if (!count.ok()) {
    // A failed read HDF5 can deal with; it must not go on with rubbish.
    if (!context.failure) context.failure = std::move(count).error();
    return -1;
  }
  // What was never written reads as zeros.
  std::memset(bytes.data() + *count, 0, size - *count);
  context.read(bytes, address);
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, const void* from) {
  auto& context = context_of(file);
  if (context.failure || (type == H5FD_MEM_DRAW && context.placement)) return 0;
  context.hold(Bytes(static_cast<const std::byte*>(from), size), address, type == H5FD_MEM_DRAW);
  return 0;
}

/// The store cuts the file when HDF5 has closed it.
herr_t truncate_nothing(H5FD_t*, hid_t, hbool_t) { return 0; }

/// Both must be there, or HDF5 does not mark the superblock as open for writing.
herr_t lock_nothing(H5FD_t*, hbool_t) { return 0; }
herr_t unlock_nothing(H5FD_t*) { return 0; }

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 2)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(601);  // of the range that is free for anybody
#endif
  driver.name = "penstock";
  driver.maxaddr = std::numeric_limits<std::int64_t>::max();
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.alloc = allocate;
  driver.free = free_nothing;
  driver.get_eoa = end_of_space;
  driver.set_eoa = keep_end_of_space;
  driver.get_eof = end_of_space;
  driver.read = read;
  driver.write = write;
  driver.truncate = truncate_nothing;
  driver.lock = lock_nothing;
  driver.unlock = unlock_nothing;
  constexpr H5FD_mem_t free_lists[] = H5FD_FLMAP_DEFAULT;
  std::copy(std::begin(free_lists), std::end(free_lists), driver.fl_map);
  return driver;
}

}  // namespace

void DriverContext::hold(Bytes bytes, std::uint64_t address, bool raw) {
  while (!bytes.empty() && !failure) {
    const auto part = fresh.part_at(address, bytes.size());
    // The superblock is written as a whole, and stays a write of its own.
    const bool across = address < superblock_bytes && address + part.size > superblock_bytes;
    const auto now = bytes.first(across ? superblock_bytes - address : part.size);
    if (!part.fresh) {
      changes.add(address, now, address != superblock_bytes);
    } else if (raw && now.size() > held_write_bytes_max && !in_fresh_space.overlap(address, now.size())) {
      auto written = write_at(*file, now, address);
      if (written.ok() || !waits_for_room || written.error().code() != Errc::no_space)
        take(std::move(written));
      else
        in_fresh_space.add(address, now);
    } else {
      in_fresh_space.add(address, now);
    }
    bytes = bytes.subspan(now.size());
    address += now.size();
  }
  if (failure || waits) {
    if (!failure && held_bytes() > held_bytes_limit)
      failure =
          make_error(Errc::too_large, "{} bytes of the index wait for free space on the storage; the maximum is {}",
                     held_bytes(), held_bytes_limit);
    return;
  }
  const auto fresh_max = HeldWrites::all_bytes() > all_bytes_much ? commit_bytes_min : fresh_bytes_max;
  if (in_fresh_space.bytes() > fresh_max) take(write_fresh());
  if (!failure && !waits && changes.bytes() > held_bytes_max) spill();
}

bool DriverContext::holds_much() const {
  if (before_changes) return changes.bytes() > kept_bytes_much;
  return changes.bytes() > (HeldWrites::all_bytes() > all_bytes_much ? commit_bytes_min : changes_bytes_much);
}

Result<void> DriverContext::admit_chunks() const {
  if (!waits || held_bytes() <= held_bytes_max) return {};
  return make_error(Errc::no_space,
                    "{} bytes of the index wait for free space on the storage; no chunks are added beyond {}",
                    held_bytes(), held_bytes_max);
}

void DriverContext::read(MutableBytes bytes, std::uint64_t address) const {
  in_fresh_space.lay_over(bytes, address);
  changes.lay_over(bytes, address);
}

/// What came of writing.
void DriverContext::take(Result<void> written) {
  if (written.ok()) return;
  if (!waits_for_room || written.error().code() != Errc::no_space) {
    failure = std::move(written).error();
    return;
  }
  if (const auto suppressed = limiters.waits.admit())
    spdlog::warn("disk full: new index entries stay in memory until there is space: {}{}", written.error().message(),
                 and_suppressed(*suppressed));
  waits = true;
}

Result<void> DriverContext::commit(Moment moment) {
  if (failure || file == nullptr) return outcome({});
  const bool waited = std::exchange(waits, false);
  take(write_all(moment));
  if (waited && !waits && !failure)
    if (const auto suppressed = limiters.room.admit())
      spdlog::info("space is available again: the index continues{}", and_suppressed(*suppressed));
  return outcome({});
}

Result<void> DriverContext::settle() {
  PEN_TRY(commit(Moment::end));
  if (!waits && journal) take(journal->clear());
  PEN_TRY(outcome({}));
  if (!waits) return {};
  return make_error(Errc::no_space,
                    "{} bytes of the index did not fit on the storage; free space, then run `penstock recover` to "
                    "complete the file",
                    held_bytes());
}

/// Between two commits too much has come: in place it goes in HDF5's order, as if there was no journal.
void DriverContext::spill() { take(write_all(Moment::between)); }

Result<void> DriverContext::write_all(Moment moment) {
  PEN_TRY(write_fresh());
  if (changes.empty()) return {};
  if (journal) PEN_TRY(enter_in_journal(moment));
  PEN_TRY(begin_changes());
  fresh.clear();
  return write_changes(moment);
}

/// What finds no room in the journal and cannot wait for it goes in place without one: that is a risk for as long as it
/// takes, and not to write it would leave the index incomplete for certain.
Result<void> DriverContext::enter_in_journal(Moment moment) {
  const bool is_kept = static_cast<bool>(before_changes);
  if (moment != Moment::between) {
    auto entered = journal->write(ordered(), [this] { return begin_changes(); });
    if (entered.ok()) return entered;
    const auto code = entered.error().code();
    const bool cannot_wait = code == Errc::too_large || (code == Errc::no_space && moment == Moment::end && !is_kept);
    if (!cannot_wait) return entered;
  }
  PEN_TRY(begin_changes());
  return journal->clear();
}

Result<void> DriverContext::begin_changes() {
  const auto before = std::exchange(before_changes, {});
  return before ? before() : Result<void>{};
}

Result<void> DriverContext::write_fresh() {
  std::vector<std::byte> bytes;
  for (const auto& [address, size] : in_fresh_space.stretches()) {
    for (std::uint64_t done = 0; done < size; done += bytes.size()) {
      bytes.resize(std::min(size - done, write_bytes_max));
      in_fresh_space.lay_over(bytes, address + done);
      PEN_TRY(write_at(*file, bytes, address + done));
    }
  }
  in_fresh_space.clear();
  return {};
}

/// In HDF5's order, but for the superblock, which comes last, and once: it says that a file is closed.
std::vector<const Change*> DriverContext::ordered() const {
  std::vector<const Change*> list;
  const Change* superblock = nullptr;
  for (const auto& change : changes.in_order()) {
    if (change.address >= superblock_bytes) list.push_back(&change);
    if (change.address != 0) continue;
    superblock = &change;
  }
  if (superblock != nullptr) list.push_back(superblock);
  return list;
}

/// All that is written so far, and as many bytes as the superblock says.
Result<void> DriverContext::sync_up_to_end(Bytes superblock) {
  const auto said = decode_own_superblock(superblock);
  PEN_ASSIGN(const auto size, file->size());
  if (said && size < said->end_of_file) PEN_TRY(file->truncate(said->end_of_file));
  return file->sync();
}

/// The superblock waits until the structures are consistent. One that says that the file is closed waits until all of
/// them are on the device: otherwise a loss of power could leave a finished file that is shorter than it says, as an
/// incomplete copy is.
Result<void> DriverContext::write_changes(Moment moment) {
  std::vector<std::byte> superblock;
  for (const auto* change : ordered()) {
    if (change->address == 0 && moment == Moment::between) {
      superblock = change->bytes;
      continue;
    }
    if (change->address == 0 && moment == Moment::end) PEN_TRY(sync_up_to_end(change->bytes));
    PEN_TRY(write_at(*file, change->bytes, change->address));
  }
  changes.clear();
  if (!superblock.empty()) changes.add(0, superblock);
  return {};
}

Result<Handle> register_driver() {
  static const auto driver = make_class();
  return owned(H5FDregister(&driver), H5FDunregister, "register the file driver");
}

Result<void> use_driver(hid_t access, hid_t driver, DriverContext& context) {
  const DriverInfo info{&context};
  return done(H5Pset_driver(access, driver, &info), "set the file driver");
}

}  // namespace penstock::store::hdf5
