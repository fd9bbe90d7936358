#include "store/hdf5/plugins/filter_names.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "store/hdf5/handles.hpp"

namespace penstock::store::hdf5 {
namespace {

/// As far as the HDF Group registered them.
constexpr auto names = std::to_array<std::pair<int, std::string_view>>({
    {307, "bzip2"},
    {32000, "lzf"},
    {32001, "blosc"},
    {32004, "lz4"},
    {32008, "bitshuffle"},
    {32013, "zfp"},
    {32015, "zstd"},
    {32017, "sz"},
    {32018, "fcidecomp"},
    {32019, "jpeg"},
    {32023, "bitgroom"},
    {32024, "sz3"},
    {32026, "blosc2"},
    {32028, "sperr"},
});

std::string name_of(int id) {
  const auto* const found =
      std::find_if(names.begin(), names.end(), [&](const auto& each) { return each.first == id; });
  return found == names.end() ? fmt::format("filter {}", id) : std::string(found->second);
}

/// Nobody reads or writes such chunks through the library here.
extern "C" std::size_t refuse_chunk(unsigned, std::size_t, const unsigned*, std::size_t, std::size_t*, void**) {
  return 0;
}

}  // namespace

Result<void> name_filter(int id) {
  static std::mutex mutex;
  // The library keeps a pointer to the name until the process ends.
  static auto& registered = *new std::map<int, std::string>();
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = registered.try_emplace(id, name_of(id));
  if (!is_new) return {};
  const H5Z_class2_t filter{.version = H5Z_CLASS_T_VERS,
                            .id = id,
                            .encoder_present = 1,
                            .decoder_present = 1,
                            .name = entry->second.c_str(),
                            .can_apply = nullptr,
                            .set_local = nullptr,
                            .filter = refuse_chunk};
  return done(H5Zregister(&filter), fmt::format("name filter {}", id));
}

}  // namespace penstock::store::hdf5
