#include "load/made/made.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::load {
namespace {

using Ranges = std::map<std::uint64_t, std::uint64_t>;

void add(Ranges& ranges, std::uint64_t number) {
  auto next = ranges.upper_bound(number);
  const auto before = next == ranges.begin() ? ranges.end() : std::prev(next);
  if (before != ranges.end() && before->second >= number) return;
  const bool joins_next = next != ranges.end() && next->first == number + 1;
  const auto last = joins_next ? next->second : number;
  if (joins_next) ranges.erase(next);
  if (before != ranges.end() && before->second + 1 == number)
    before->second = last;
  else
    ranges[number] = last;
}

void take(Ranges& ranges, std::uint64_t number) {
  const auto next = ranges.upper_bound(number);
  if (next == ranges.begin()) return;
  const auto [first, last] = *std::prev(next);
  if (last < number) return;
  ranges.erase(first);
  if (first < number) ranges[first] = number - 1;
  if (number < last) ranges[number + 1] = last;
}

Json to_list(const Ranges& ranges) {
  auto list = Json::array();
  for (const auto& [first, last] : ranges) list.push_back({first, last});
  return list;
}

}  // namespace

bool Made::ask(std::uint64_t number, Name name) {
  MutexLock lock(mutex_);
  if (!closed_) add(of(name), number);
  return !closed_;
}

void Made::gone(std::uint64_t number, Name name) {
  MutexLock lock(mutex_);
  take(of(name), number);
}

void Made::handled(NamesHandled names) {
  MutexLock lock(mutex_);
  names_.push_back(std::move(names));
}

void Made::close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

Json Made::to_json() const {
  MutexLock lock(mutex_);
  auto names = Json::array();
  for (const auto& one : names_)
    names.push_back({{"operation", one.operation},
                     {"tree", one.tree},
                     {"thread", one.thread},
                     {"done", one.done},
                     {"attempted", one.attempted}});
  return {{"files", to_list(files_)}, {"partial", to_list(partial_)}, {"names", std::move(names)}};
}

Json Made::merged(const std::vector<Json>& ranks) {
  if (std::any_of(ranks.begin(), ranks.end(), [](const Json& one) { return one.is_null(); })) return nullptr;
  Json all = Made().to_json();
  for (const auto& one : ranks)
    for (auto& [part, list] : all.items())
      for (const auto& each : one.at(part)) list.push_back(each);
  return all;
}

}  // namespace penstock::load
