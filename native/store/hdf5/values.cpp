#include "store/hdf5/values.hpp"

#include <algorithm>

namespace penstock::store::hdf5 {
namespace {

/// A value as HDF5 wants it: type, space, and memory laid out for a write.
struct Prepared {
  Handle type;
  Handle space;
  std::vector<const char*> strings;  ///< for text
  const void* data = nullptr;        ///< null where there is no element
};

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

Result<Handle> text_type(bool ascii) {
  PEN_ASSIGN(auto type, owned(H5Tcopy(H5T_C_S1), H5Tclose, "make a string type"));
  PEN_TRY(done(H5Tset_size(type.get(), H5T_VARIABLE), "make a string type of variable length"));
  PEN_TRY(done(H5Tset_cset(type.get(), ascii ? H5T_CSET_ASCII : H5T_CSET_UTF8), "set a string's character set"));
  return type;
}

Result<Handle> space_of(const std::vector<std::uint64_t>& shape) {
  if (shape.empty()) return owned(H5Screate(H5S_SCALAR), H5Sclose, "make a scalar dataspace");
  if (shape.size() > H5S_MAX_RANK)
    return make_error(Errc::invalid_argument, "a value has {} dimensions; HDF5 has at most {}", shape.size(),
                      H5S_MAX_RANK);
  const std::vector<hsize_t> dimensions(shape.begin(), shape.end());
  return owned(H5Screate_simple(static_cast<int>(dimensions.size()), dimensions.data(), nullptr), H5Sclose,
               "make a dataspace");
}

Result<Prepared> prepare(const std::string& text) {
  Prepared prepared;
  PEN_ASSIGN(prepared.type, text_type(is_ascii(text)));
  PEN_ASSIGN(prepared.space, space_of({}));
  prepared.strings = {text.c_str()};
  prepared.data = prepared.strings.data();
  return prepared;
}

Result<Prepared> prepare(const std::vector<std::string>& texts) {
  Prepared prepared;
  PEN_ASSIGN(prepared.type, text_type(std::all_of(texts.begin(), texts.end(), is_ascii)));
  PEN_ASSIGN(prepared.space, space_of({texts.size()}));
  for (const auto& text : texts) prepared.strings.push_back(text.c_str());
  if (!texts.empty()) prepared.data = prepared.strings.data();
  return prepared;
}

Result<Prepared> prepare(const ArrayValue& array) {
  std::uint64_t count = 1;
  for (const auto extent : array.spec.shape) {
    if (__builtin_mul_overflow(count, extent, &count))
      return make_error(Errc::invalid_argument, "the shape of a value overflows");
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size_of(array.spec.type), &bytes) || bytes != array.data.size())
    return make_error(Errc::invalid_argument, "a value has {} bytes, but its shape and type need {}", array.data.size(),
                      bytes);
  Prepared prepared;
  PEN_ASSIGN(prepared.type, owned(H5Tcopy(type_of(array.spec.type)), H5Tclose, "copy a type"));
  PEN_ASSIGN(prepared.space, space_of(array.spec.shape));
  if (bytes > 0) prepared.data = array.data.data();
  return prepared;
}

Result<Prepared> prepare(const Boolean& boolean) {
  static constexpr std::int8_t numbers[] = {0, 1};
  Prepared prepared;
  PEN_ASSIGN(prepared.type, owned(H5Tenum_create(H5T_STD_I8LE), H5Tclose, "make a type of truth values"));
  PEN_TRY(done(H5Tenum_insert(prepared.type.get(), "FALSE", &numbers[0]), "name a truth value"));
  PEN_TRY(done(H5Tenum_insert(prepared.type.get(), "TRUE", &numbers[1]), "name a truth value"));
  PEN_ASSIGN(prepared.space, space_of({}));
  prepared.data = &numbers[boolean.value ? 1 : 0];
  return prepared;
}

Result<Prepared> prepare(const Value& value) {
  return std::visit([](const auto& kind) { return prepare(kind); }, value);
}

bool exists(hid_t file, const std::string& path) { return H5Lexists(file, path.c_str(), H5P_DEFAULT) > 0; }

Result<void> check_path(const std::string& path) {
  const bool absolute = path.size() > 1 && path.front() == '/' && path.back() != '/';
  if (!absolute || path.find("//") != std::string::npos || path.find('\0') != std::string::npos)
    return make_error(Errc::invalid_argument, "path '{}' is not an absolute path of an HDF5 object", path);
  return {};
}

Result<void> write_attribute(hid_t object, const Attribute& attribute) {
  const auto* name = attribute.name.c_str();
  PEN_ASSIGN(const auto prepared, prepare(attribute.value));
  if (H5Aexists(object, name) > 0) PEN_TRY(done(H5Adelete(object, name), "replace an attribute"));
  PEN_ASSIGN(const auto naming, name_properties(H5P_ATTRIBUTE_CREATE, attribute.name));
  PEN_ASSIGN(const auto created,
             owned(H5Acreate2(object, name, prepared.type.get(), prepared.space.get(), naming.get(), H5P_DEFAULT),
                   H5Aclose, "create an attribute"));
  if (prepared.data != nullptr)
    PEN_TRY(done(H5Awrite(created.get(), prepared.type.get(), prepared.data), "write an attribute"));
  return {};
}

}  // namespace

Result<Handle> creation_properties(hid_t kind) {
  constexpr unsigned in_header_max = 65535;  // the most that HDF5 takes
  PEN_ASSIGN(auto properties, owned(H5Pcreate(kind), H5Pclose, "make a property list"));
  PEN_TRY(done(H5Pset_attr_phase_change(properties.get(), in_header_max, 0), "keep attributes in the header"));
  return properties;
}

Result<Handle> name_properties(hid_t kind, std::string_view path) {
  PEN_ASSIGN(auto properties, owned(H5Pcreate(kind), H5Pclose, "make a property list"));
  const auto name = path.substr(path.rfind('/') + 1);
  if (!is_ascii(name))
    PEN_TRY(done(H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8), "set a name's character set"));
  return properties;
}

Result<void> make_group(hid_t file, const std::string& path) {
  if (path == "/") return {};
  PEN_TRY(check_path(path));
  // Mostly it is there, and to ask for each group above it would take long in a deep tree of many objects.
  if (exists(file, path)) return {};
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const auto part = path.substr(0, end);
    if (!exists(file, part)) {
      PEN_ASSIGN(const auto properties, creation_properties(H5P_GROUP_CREATE));
      PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, part));
      PEN_ASSIGN(const auto group, owned(H5Gcreate2(file, part.c_str(), naming.get(), properties.get(), H5P_DEFAULT),
                                         H5Gclose, fmt::format("create group {}", part)));
    }
    if (end == std::string::npos) return {};
  }
}

Result<void> make_parents(hid_t file, const std::string& path) {
  PEN_TRY(check_path(path));
  const auto last = path.rfind('/');
  return last == 0 ? Result<void>{} : make_group(file, path.substr(0, last));
}

Result<void> write_value(hid_t file, const ValueNode& node) {
  PEN_TRY(make_parents(file, node.path));
  PEN_ASSIGN(const auto prepared, prepare(node.value), "{}", node.path);
  if (exists(file, node.path))
    PEN_TRY(done(H5Ldelete(file, node.path.c_str(), H5P_DEFAULT), fmt::format("replace {}", node.path)));
  {
    PEN_ASSIGN(const auto properties, creation_properties(H5P_DATASET_CREATE));
    PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, node.path));
    PEN_ASSIGN(const auto dataset, owned(H5Dcreate2(file, node.path.c_str(), prepared.type.get(), prepared.space.get(),
                                                    naming.get(), properties.get(), H5P_DEFAULT),
                                         H5Dclose, fmt::format("create {}", node.path)));
    if (prepared.data != nullptr)
      PEN_TRY(done(H5Dwrite(dataset.get(), prepared.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, prepared.data),
                   fmt::format("write {}", node.path)));
  }
  return write_attributes(file, node.path, node.attributes);
}

Result<void> write_attributes(hid_t file, const std::string& path, std::span<const Attribute> attributes) {
  if (attributes.empty()) return {};
  PEN_ASSIGN(const auto object,
             owned(H5Oopen(file, path.c_str(), H5P_DEFAULT), H5Oclose, fmt::format("open {}", path)));
  for (const auto& attribute : attributes)
    PEN_TRY(write_attribute(object.get(), attribute), "attribute '{}' of {}", attribute.name, path);
  return {};
}

Result<void> make_link(hid_t file, const LinkNode& node) {
  PEN_TRY(make_parents(file, node.path));
  PEN_ASSIGN(const auto naming, name_properties(H5P_LINK_CREATE, node.path));
  return done(H5Lcreate_hard(file, node.target.c_str(), file, node.path.c_str(), naming.get(), H5P_DEFAULT),
              fmt::format("link {} to {}", node.path, node.target));
}

Result<void> replace_link(hid_t file, const LinkNode& node) {
  PEN_TRY(make_parents(file, node.path));
  if (exists(file, node.path))
    PEN_TRY(done(H5Ldelete(file, node.path.c_str(), H5P_DEFAULT), fmt::format("replace {}", node.path)));
  return make_link(file, node);
}

}  // namespace penstock::store::hdf5
