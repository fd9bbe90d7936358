/// Where folders and files of a metadata workload lie. The names are part of what may be removed again:
/// python/penstock/bench/data/trees.py knows them too.
///
/// A tree's top is called PREFIX and nine digits, the folders below it t0, t1 and so on. An item's name is a letter,
/// the number of the thread that made it, of all ranks' and with three digits or more, and its own: d003-000000042 is a
/// folder, f003-000000042 a file; with e and g in front once they were renamed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::load {

/// From a tree's top to each folder in it, "" for the top and "/t0/t1" for others; each comes after those it lies in.
inline std::vector<std::string> tree_places(std::uint64_t folders, unsigned branch) {
  std::vector<std::string> places(1);
  places.reserve(folders);
  for (std::uint64_t i = 1; i < folders; ++i)
    places.push_back(fmt::format("{}/t{}", places[(i - 1) / branch], (i - 1) % branch));
  return places;
}

/// The items of one thread in one folder, one after the other. Going on to the next one costs a byte or two: what is
/// measured is the storage.
class ItemPath {
 public:
  ItemPath(char letter, std::uint64_t thread) : name_(fmt::format("/{}{:03}-", letter, thread)) {}

  /// To the first item in a folder.
  void enter(const std::string& top, const std::string& place) {
    text_ = top;
    text_ += place;
    text_ += name_;
    text_ += "000000000";
  }
  void next() {
    auto at = text_.size() - 1;
    for (; text_[at] == '9'; --at) text_[at] = '0';
    ++text_[at];
  }
  const char* text() const { return text_.c_str(); }

 private:
  const std::string name_;
  std::string text_;
};

}  // namespace penstock::load
