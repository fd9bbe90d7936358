#include "store/hdf5/handles.hpp"

#include <string>

namespace penstock::store::hdf5 {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

void set_up() {
  // Every file is closed before the program ends. One that could not be HDF5 would try to close once more at exit, when
  // what its driver needs is gone.
  H5dont_atexit();
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

/// The innermost entry of the stack says what really went wrong.
herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) = fmt::format("{} ({})", entry->desc, entry->func_name);
  return 0;
}

}  // namespace

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  // In a library that was built for threads, printing is switched off thread by thread.
  thread_local const bool ready = (set_up(), true);
  (void)ready;
}

Error library_error(std::string_view what) {
  std::string text = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  return make_error(Errc::hdf5, "HDF5 could not {}: {}", what, text);
}

hid_t type_of(ElementType type) {
  switch (type) {
    case ElementType::u8: return H5T_STD_U8LE;
    case ElementType::u16: return H5T_STD_U16LE;
    case ElementType::u32: return H5T_STD_U32LE;
    case ElementType::u64: return H5T_STD_U64LE;
    case ElementType::i8: return H5T_STD_I8LE;
    case ElementType::i16: return H5T_STD_I16LE;
    case ElementType::i32: return H5T_STD_I32LE;
    case ElementType::i64: return H5T_STD_I64LE;
    case ElementType::f32: return H5T_IEEE_F32LE;
    case ElementType::f64: return H5T_IEEE_F64LE;
  }
  return -1;
}

}  // namespace penstock::store::hdf5
