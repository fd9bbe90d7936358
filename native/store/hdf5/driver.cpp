#include "store/hdf5/driver.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <new>

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

/// Of the index's writes that wait for room. An index grows by some ten bytes a chunk: this is hours of them.
constexpr std::uint64_t waiting_bytes_max = 64 << 20;

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
  if (flags != nullptr)
    *flags = H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE | H5FD_FEAT_ACCUMULATE_METADATA;
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
  if (address.ok()) return *address;
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

/// What waits is not in the file yet.
void lay_waiting_over(const DriverContext& context, MutableBytes bytes, std::uint64_t address) {
  for (const auto& write : context.waiting) {
    const auto from = std::max(address, write.address);
    const auto to = std::min(address + bytes.size(), write.address + write.bytes.size());
    if (from < to) std::memcpy(bytes.data() + (from - address), write.bytes.data() + (from - write.address), to - from);
  }
}

void keep_waiting(DriverContext& context, Bytes bytes, std::uint64_t address) {
  if (context.waiting_bytes + bytes.size() > waiting_bytes_max) {
    context.failure = make_error(Errc::no_space, "{} bytes of the index wait for room on the storage; no more can",
                                 context.waiting_bytes);
    return;
  }
  context.waiting.push_back({address, {bytes.begin(), bytes.end()}});
  context.waiting_bytes += bytes.size();
}

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
  lay_waiting_over(context, bytes, address);
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, const void* from) {
  auto& context = context_of(file);
  if (context.failure || (type == H5FD_MEM_DRAW && context.placement)) return 0;
  const Bytes bytes(static_cast<const std::byte*>(from), size);
  context.write_waiting();
  if (context.failure) return 0;
  if (!context.waiting.empty()) {
    keep_waiting(context, bytes, address);
    return 0;
  }
  auto written = write_at(*context.file, bytes, address);
  if (written.ok()) return 0;
  if (!context.waits_for_room || written.error().code() != Errc::no_space) {
    context.failure = std::move(written).error();
    return 0;
  }
  if (const auto more = context.waits_told.tell())
    spdlog::warn("the index waits for room; until then what it has more is in memory: {}{}", written.error().message(),
                 *more);
  keep_waiting(context, bytes, address);
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

void DriverContext::write_waiting() {
  if (waiting.empty() || failure || file == nullptr) return;
  while (!waiting.empty()) {
    const auto& first = waiting.front();
    if (auto written = write_at(*file, first.bytes, first.address); !written.ok()) {
      if (written.error().code() != Errc::no_space) failure = std::move(written).error();
      return;
    }
    waiting_bytes -= first.bytes.size();
    waiting.pop_front();
  }
  if (const auto more = room_told.tell()) spdlog::info("there is room again: the index goes on{}", *more);
}

Result<void> DriverContext::nothing_waits() const {
  if (waiting.empty()) return {};
  return make_error(Errc::no_space, "{} bytes of the index found no room on the storage; recovery completes the file",
                    waiting_bytes);
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
