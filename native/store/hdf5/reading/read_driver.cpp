#include "store/hdf5/reading/read_driver.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::store::hdf5 {
namespace {

constexpr haddr_t address_end = haddr_t{1} << 62;

struct Access {
  ReadDriverState* state;
};

struct OpenFile {
  H5FD_t base;  // HDF5's part comes first
  ReadDriverState* state;
  haddr_t end_of_allocation;
};

OpenFile* self(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* self(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char*, unsigned flags, hid_t access_list, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  const auto* access = static_cast<const Access*>(H5Pget_driver_info(access_list));
  if (access == nullptr) return nullptr;
  auto* file = new OpenFile{};
  file->state = access->state;
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  delete self(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  if (self(a)->state == self(b)->state) return 0;
  return self(a)->state < self(b)->state ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_SUPPORTS_SWMR_IO;
  return 0;
}

/// HDF5 reads nothing behind it. The superblock of a file whose recorder was killed may tell less than is there.
haddr_t end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  const auto& state = *self(file)->state;
  return state.capturing ? address_end : std::max<haddr_t>(self(file)->end_of_allocation, state.size);
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file)->end_of_allocation = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t*, H5FD_mem_t) { return address_end; }

herr_t read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, size_t size, void* into) {
  auto& state = *self(file)->state;
  if (state.capturing && type == H5FD_MEM_DRAW) {
    state.captured = RawRead{address, size};
    return 0;
  }
  if (address > state.size || size > state.size - address) return -1;
  const auto count = state.file->read_at(MutableBytes(static_cast<std::byte*>(into), size), address);
  if (count.ok() && *count == size) return 0;
  if (!state.storage_error)
    state.storage_error = count.ok() ? make_error(Errc::io, "the file is shorter than it was") : count.error();
  return -1;
}

herr_t refuse_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

H5FD_class_t make_class() {
  H5FD_class_t driver;
  std::memset(&driver, 0, sizeof driver);
#if H5_VERSION_GE(1, 14, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(613);  // from the range for experiments
#endif
  driver.name = "penstock-read";
  driver.maxaddr = address_end;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Access);
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = end_of_allocation;
  driver.set_eoa = set_end_of_allocation;
  driver.get_eof = end_of_file;
  driver.read = read;
  driver.write = refuse_write;
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::memcpy(driver.fl_map, map, sizeof map);
  return driver;
}

}  // namespace

Result<hid_t> make_read_access(ReadDriverState& state) {
  static const H5FD_class_t driver = make_class();
  static const hid_t driver_id = H5FDregister(&driver);
  if (driver_id < 0) return make_error(Errc::hdf5, "HDF5 rejects the reading driver");
  const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  if (list < 0) return make_error(Errc::hdf5, "HDF5 gives no file access list");
  // Of a file that is being written HDF5 reads a block again whose checksum is wrong, a hundred times after pauses that
  // double; after so many it has waited 17 ms.
  if (H5Pset_metadata_read_attempts(list, 24) < 0) {
    H5Pclose(list);
    return make_error(Errc::hdf5, "HDF5 rejects the number of attempts");
  }
  const Access access{&state};
  if (H5Pset_driver(list, driver_id, &access) < 0) {
    H5Pclose(list);
    return make_error(Errc::hdf5, "HDF5 rejects the reading driver for a file");
  }
  return list;
}

}  // namespace penstock::store::hdf5
