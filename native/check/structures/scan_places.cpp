#include "check/structures/scan_places.hpp"

namespace penstock::check {

std::optional<std::vector<std::uint64_t>> places_of(const Tree& tree) {
  const auto* column = tree.find(places_path);
  const auto* array = column != nullptr && column->value ? std::get_if<store::ArrayValue>(&*column->value) : nullptr;
  if (array == nullptr || array->spec.type != ElementType::i64) return std::nullopt;
  std::vector<std::uint64_t> places(array->data.size() / 8);
  for (std::size_t frame = 0; frame < places.size(); ++frame) {
    const auto place = load_le<std::int64_t>(array->data.data() + 8 * frame);
    places[frame] = place >= 0 ? static_cast<std::uint64_t>(place) : no_place;
  }
  return places;
}

std::vector<std::uint64_t> frames_at(const std::vector<std::uint64_t>& places, std::uint64_t count) {
  std::vector<std::uint64_t> frames(count, no_place);
  for (std::size_t frame = 0; frame < places.size(); ++frame)
    if (places[frame] < count) frames[places[frame]] = frame;
  return frames;
}

}  // namespace penstock::check
