#include "recorder/tree/nexus/nexus_tree.hpp"

#include <cctype>

namespace penstock::recorder {

std::string plain_name(const std::string& name) {
  std::string plain = name;
  for (auto& c : plain)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  return plain.empty() ? "_" : plain;
}

std::vector<store::Attribute> transformation(const char* type, const char* unit, const std::vector<double>& vector,
                                             const std::string& depends_on, const std::vector<double>& offset_m) {
  return {{"transformation_type", std::string(type)}, units(unit),
          {"vector", store::vector_of(vector)},       {"offset", store::vector_of(offset_m)},
          {"offset_units", std::string("m")},         {"depends_on", depends_on}};
}

void Tree::group(const std::string& path, const char* klass, std::vector<store::Attribute> more) {
  more.insert(more.begin(), nx_class(klass));
  layout_.groups.push_back({path, std::move(more)});
}

std::string Tree::take(std::string path) {
  while (!taken_.insert(path).second) path += '_';
  return path;
}

void Tree::value(std::string path, store::Value value, std::vector<store::Attribute> attributes) {
  layout_.values.push_back({take(std::move(path)), std::move(value), std::move(attributes)});
}

}  // namespace penstock::recorder
