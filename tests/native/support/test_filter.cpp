/// An HDF5 filter plug-in for tests, with a number from the range that is kept for them. Its one parameter is how it
/// behaves; with set_local the size of an element stands in front of it. It uses HDF5 as real ones do.

#include <H5PLextern.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace {

constexpr H5Z_filter_t number = 311;
enum Mode : unsigned {
  inverts,
  refuses_odd,
  boasts,
  loses_its_buffer,
  throws,
  fails_silently,
  reports_and_inverts,
  two_meet,
  registers_itself,
  eight_meet,
  refuses_blank
};

void report(const char* text) {
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_PLINE, H5E_CANTFILTER, "%s", text);
}

extern const H5Z_class2_t filter_class;

htri_t can_apply(hid_t, hid_t type, hid_t) { return H5Tget_class(type) == H5T_INTEGER ? 1 : 0; }

herr_t set_local(hid_t list, hid_t type, hid_t) {
  unsigned flags = 0;
  unsigned values[8] = {};
  std::size_t count = 8;
  if (H5Pget_filter_by_id2(list, number, &flags, &count, values, 0, nullptr, nullptr) < 0) return -1;
  if (count != 1) {
    report("one parameter is needed, the mode");
    return -1;
  }
  if (values[0] == registers_itself) H5Zregister(&filter_class);
  const unsigned complete[] = {static_cast<unsigned>(H5Tget_size(type)), values[0]};
  return H5Pmodify_filter(list, number, flags, 2, complete);
}

/// Into a new buffer, so that a caller that keeps the old one is noticed.
std::size_t invert(std::size_t size, std::size_t* buffer_bytes, void** buffer) {
  auto* made = static_cast<unsigned char*>(std::malloc(size));
  const auto* from = static_cast<const unsigned char*>(*buffer);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<unsigned char>(~from[i]);
  std::free(*buffer);
  *buffer = made;
  *buffer_bytes = size;
  return size;
}

/// As a plug-in is tried out with.
bool is_blank(const void* buffer, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(buffer);
  return std::all_of(bytes, bytes + size, [](unsigned char byte) { return byte == 0; });
}

/// Whether so many calls come in before the first of them is back.
template <unsigned many>
bool meet() {
  static std::mutex mutex;
  static std::condition_variable came;
  static unsigned calls = 0;
  std::unique_lock lock(mutex);
  const auto all = (calls++ / many + 1) * many;
  came.notify_all();
  return came.wait_for(lock, std::chrono::seconds(10), [&] { return calls >= all; });
}

std::size_t filter(unsigned, std::size_t count, const unsigned* values, std::size_t size, std::size_t* buffer_bytes,
                   void** buffer) {
  if (count != 2) return 0;
  switch (values[1]) {
    case refuses_odd:
      if (size > 0 && (*static_cast<const unsigned char*>(*buffer) & 1U) != 0) {
        report("an odd chunk");
        return 0;
      }
      break;
    case boasts: return size + (std::size_t{1} << 30);
    case loses_its_buffer:
      std::free(*buffer);
      *buffer = nullptr;
      return 1;
    case throws: std::free(*buffer); throw std::runtime_error("as no plug-in should");
    case fails_silently: return 0;
    case two_meet:
      if (!is_blank(*buffer, size) && !meet<2>()) return 0;
      break;
    case eight_meet:
      if (!is_blank(*buffer, size) && !meet<8>()) return 0;
      break;
    case refuses_blank:
      if (is_blank(*buffer, size)) return 0;
      break;
    case reports_and_inverts: report("nothing is wrong"); break;
    default: break;
  }
  return invert(size, buffer_bytes, buffer);
}

const H5Z_class2_t filter_class = {H5Z_CLASS_T_VERS, number, 1, 1, "penstock test", can_apply, set_local, filter};

}  // namespace

extern "C" H5PL_type_t H5PLget_plugin_type() { return H5PL_TYPE_FILTER; }
extern "C" const void* H5PLget_plugin_info() { return &filter_class; }
