/// What the parts of the NeXus tree are made with: nodes of a layout, one after the other.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/layout.hpp"

namespace penstock::recorder {

inline constexpr const char* detector_path = "/entry/instrument/detector";

inline store::Attribute nx_class(const char* name) { return {"NX_class", std::string(name)}; }
inline store::Attribute units(const char* name) { return {"units", std::string(name)}; }
/// What a dataset of Penstock's own is, for people who look at a file.
inline store::Attribute description(const char* text) { return {"description", std::string(text)}; }

/// A name as NeXus allows it: characters other than letters, digits, '_' and '-' become '_'. Never empty.
std::string plain_name(const std::string& name);

/// A step of a chain of transformations (NXtransformations): along or about `vector`, after `offset`.
std::vector<store::Attribute> transformation(const char* type, const char* unit, const std::vector<double>& vector,
                                             const std::string& depends_on,
                                             const std::vector<double>& offset_m = {0, 0, 0});

/// Collects nodes. Names that a sender chose may be the same once they are plain: then the later ones
/// get '_' at their end, so that no message keeps a file from being made.
class Tree {
 public:
  explicit Tree(store::FileLayout& layout) : layout_(layout) {}

  void group(const std::string& path, const char* klass, std::vector<store::Attribute> more = {});
  /// A path that nothing has yet, for names that a sender chose: with '_' at its end where it must be.
  std::string take(std::string path);
  void value(std::string path, store::Value value, std::vector<store::Attribute> attributes = {});
  template <typename T>
  void optional(const std::string& path, const std::optional<T>& value, std::vector<store::Attribute> attributes = {}) {
    if (!value) return;
    if constexpr (std::is_same_v<T, bool>)
      this->value(path, store::Boolean{*value}, std::move(attributes));
    else if constexpr (std::is_same_v<T, std::string>)
      this->value(path, *value, std::move(attributes));
    else
      this->value(path, store::scalar(*value), std::move(attributes));
  }

 private:
  store::FileLayout& layout_;
  std::set<std::string> taken_;
};

}  // namespace penstock::recorder
