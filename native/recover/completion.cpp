#include "recover/completion.hpp"

#include <algorithm>
#include <thread>

#include "base/time/clock.hpp"
#include "check/names.hpp"
#include "recover/layout.hpp"
#include "store/seal.hpp"

namespace penstock::recover {
namespace {

constexpr const char* end_time_path = "/entry/end_time";
constexpr const char* end_time_place_path = "/entry/penstock/layout/end_time";

const std::string* text_of(const check::Tree& tree, const std::string& path) {
  const auto* node = tree.find(path);
  return node != nullptr && node->value ? std::get_if<std::string>(&*node->value) : nullptr;
}

/// Where the time goes that tells a complete file: a file whose layout is a user's names the place.
std::string end_time_place(const check::Tree& tree, const Segments& segments) {
  const auto* place = text_of(tree, end_time_place_path);
  if (place == nullptr) place = described_text(segments.description, end_time_place_path);
  return place != nullptr && place->starts_with("/") ? *place : end_time_path;
}

}  // namespace

Result<void> lock_when_free(File& file) {
  constexpr auto step = std::chrono::milliseconds(50);
  auto locked = file.lock(true);
  for (int tries = 0; tries < 40 && !locked.ok() && locked.error().code() == Errc::locked; ++tries) {
    std::this_thread::sleep_for(step);
    locked = file.lock(true);
  }
  return locked;
}

bool was_completed(const check::Tree& tree) {
  const auto* column = tree.find(check::state_path);
  if (column == nullptr) return true;
  const auto& attributes = column->info.attributes;
  return std::any_of(attributes.begin(), attributes.end(), [](const auto& each) { return each.name == "received"; });
}

Bytes states_of(const check::Tree& tree) {
  const auto* column = tree.find(check::state_path);
  const auto* array = column != nullptr && column->value ? std::get_if<store::ArrayValue>(&*column->value) : nullptr;
  return array != nullptr && array->spec.type == ElementType::u8 ? Bytes(array->data) : Bytes();
}

void add_end_time(const check::Tree& tree, const Segments& segments, const std::vector<ReceivedTime>& times,
                  store::FinalValues& values) {
  const auto path = end_time_place(tree, segments);
  const auto last_ns = last_received_ns(tree, times);
  const auto end = iso_time(last_ns > 0 ? last_ns : segments.last_ns);
  const auto* before = text_of(tree, path);
  if (tree.find(path) == nullptr || (last_ns > 0 && before != nullptr && *before < end))
    values.values.push_back({path, end, {}});
}

Result<void> seal(File& file, const Segments& segments, std::uint64_t end) {
  auto guarded = store::fixed_extents(file, segments.description.datasets, end);
  guarded.insert(guarded.end(), segments.guarded.begin(), segments.guarded.end());
  PEN_ASSIGN(const auto file_bytes, file.size());
  auto extents = store::outside(file, std::move(guarded), std::min(end, file_bytes));
  return store::write_seal(file, segments.file_id, std::move(extents), end);
}

}  // namespace penstock::recover
