/// All that plain HDF5 shows of a file, as text that can be compared. Nothing of Penstock is asked.
#pragma once

#include <fmt/format.h>
#include <hdf5.h>

#include <map>
#include <string>
#include <vector>

namespace penstock::testing {

/// By path, and for attributes path@name: type, shape and bytes. What cannot be read says so.
using Content = std::map<std::string, std::string>;

namespace content {

inline std::string described(hid_t type, hid_t space, const auto& read) {
  const auto points = H5Sget_simple_extent_npoints(space);
  hsize_t dimensions[H5S_MAX_RANK] = {};
  const int rank = H5Sget_simple_extent_dims(space, dimensions, nullptr);
  auto text = fmt::format("class {} size {} [", static_cast<int>(H5Tget_class(type)), H5Tget_size(type));
  for (int i = 0; i < rank; ++i) text += fmt::format("{},", dimensions[i]);
  text += "] ";
  if (points < 0 || points > 1 << 26) return text + "unreadable";
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> words(static_cast<std::size_t>(points), nullptr);
    if (read(type, words.data()) < 0) return text + "unreadable";
    for (const char* word : words) text += std::string(word == nullptr ? "" : word) + "|";
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, words.data());
    return text;
  }
  std::string bytes(static_cast<std::size_t>(points) * H5Tget_size(type), '\0');
  if (!bytes.empty() && read(type, bytes.data()) < 0) return text + "unreadable";
  return text + bytes;
}

inline herr_t add_attribute(hid_t object, const char* name, const H5A_info_t*, void* into) {
  const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
  const hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  (*static_cast<std::map<std::string, std::string>*>(into))[name] =
      described(type, space, [&](hid_t memory, void* to) { return H5Aread(attribute, memory, to); });
  H5Sclose(space);
  H5Tclose(type);
  H5Aclose(attribute);
  return 0;
}

inline void add_object(hid_t file, const std::string& path, Content& all) {
  const hid_t object = H5Oopen(file, path.c_str(), H5P_DEFAULT);
  auto& own = all[path];
  if (object < 0) {
    own = "unreadable";
    return;
  }
  own = "group";
  if (H5Iget_type(object) == H5I_DATASET) {
    const hid_t type = H5Dget_type(object), space = H5Dget_space(object);
    own = described(type, space,
                    [&](hid_t memory, void* to) { return H5Dread(object, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to); });
    H5Sclose(space);
    H5Tclose(type);
  }
  std::map<std::string, std::string> attributes;
  hsize_t first = 0;
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &first, add_attribute, &attributes) < 0) own += " unreadable";
  for (const auto& [name, text] : attributes) all[path + "@" + name] = text;
  H5Oclose(object);
}

}  // namespace content

/// `error` alone where HDF5 does not open it.
inline Content content_of_file(const std::string& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return {{"error", "HDF5 does not open it"}};
  Content all;
  std::vector<std::string> paths{"/"};
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->push_back(std::string("/") + name);
    return 0;
  };
  if (H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, add, &paths) < 0) all["error"] = "links cannot be listed";
  for (const auto& name : paths) content::add_object(file, name, all);
  H5Fclose(file);
  return all;
}

}  // namespace penstock::testing
