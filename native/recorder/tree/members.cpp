#include "recorder/tree/members.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace penstock::recorder {
namespace {

using store::Value;

store::GroupNode group(const char* path, const char* of_class, std::vector<store::Attribute> attributes) {
  attributes.push_back({"NX_class", std::string(of_class)});
  return {path, std::move(attributes)};
}

/// The groups that frames lie in, as a user's layout has them.
std::vector<store::GroupNode> groups_of_frames(const store::FileLayout& layout) {
  std::vector<store::GroupNode> groups;
  std::copy_if(layout.groups.begin(), layout.groups.end(), std::back_inserter(groups), [&](const auto& node) {
    return node.path == "/" || std::any_of(layout.chunked.begin(), layout.chunked.end(), [&](const auto& frames) {
             return frames.path.starts_with(node.path + "/");
           });
  });
  return groups;
}

}  // namespace

void lay_out_members(store::FileLayout& layout, const FilesConfig& files, const std::string& path, unsigned ranks,
                     bool user_layout) {
  if (files.layout == Files::one) return;
  const auto name = std::filesystem::path(path).filename();
  store::Members members{.stem = name.stem().string() + "_member_",
                         .suffix = name.extension().string(),
                         .frames = files.layout == Files::split ? files.frames : 0,
                         .ranks = ranks};
  // Enough for somebody who has this file alone.
  if (user_layout) {
    members.groups = groups_of_frames(layout);
  } else {
    members.groups.push_back(group("/", "NXroot", {{"default", std::string("entry")}}));
    members.groups.push_back(group("/entry", "NXentry", {{"default", std::string("data")}}));
    members.groups.push_back(group("/entry/data", "NXdata", {{"signal", std::string("data")}}));
  }
  members.groups.push_back(group("/entry/penstock", "NXcollection", {}));
  std::copy_if(layout.values.begin(), layout.values.end(), std::back_inserter(members.values), [](const auto& node) {
    return node.path == "/entry/penstock/series_id" || node.path == "/entry/penstock/series_unique_id";
  });
  layout.groups.push_back({"/",
                           {{"penstock_layout", std::string(files.layout == Files::split ? "split" : "per_writer")},
                            {"penstock_member_files", members.stem + "*" + members.suffix}}});
  layout.members = std::move(members);
}

}  // namespace penstock::recorder
