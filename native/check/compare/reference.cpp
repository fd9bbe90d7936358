#include "check/compare/reference.hpp"

#include <nlohmann/json.hpp>

#include "check/names.hpp"
#include "detector/simulation.hpp"
#include "frame/npy.hpp"

namespace penstock::check {
namespace {

constexpr std::uint64_t frame_bytes_max = std::uint64_t{1} << 32;
constexpr std::uint64_t array_bytes_max = std::uint64_t{1} << 60;

class NpyReference final : public Reference {
 public:
  NpyReference(std::shared_ptr<File> file, std::uint64_t data_at, ArraySpec spec, std::uint64_t images,
               std::uint64_t frame_bytes)
      : file_(std::move(file)), data_at_(data_at), spec_(std::move(spec)), images_(images), frame_bytes_(frame_bytes) {}

  const ArraySpec& frame_spec() const override { return spec_; }

  Result<Bytes> frame(std::uint64_t number, std::vector<std::byte>& scratch) const override {
    scratch.resize(frame_bytes_);
    const auto at = data_at_ + number % images_ * frame_bytes_;
    PEN_ASSIGN(const auto count, file_->read_at(scratch, at));
    if (count != frame_bytes_) return make_error(Errc::truncated, "the .npy file became shorter");
    return Bytes(scratch);
  }

 private:
  const std::shared_ptr<File> file_;
  const std::uint64_t data_at_;
  const ArraySpec spec_;
  const std::uint64_t images_;
  const std::uint64_t frame_bytes_;
};

class SimulationReference final : public Reference {
 public:
  explicit SimulationReference(detector::Simulation simulation)
      : simulation_(std::move(simulation)), spec_(simulation_.spec().frame()) {}

  const ArraySpec& frame_spec() const override { return spec_; }

  Result<Bytes> frame(std::uint64_t number, std::vector<std::byte>& scratch) const override {
    scratch.resize(simulation_.spec().frame_bytes());
    simulation_.make(number, scratch);
    return Bytes(scratch);
  }

 private:
  const detector::Simulation simulation_;
  const ArraySpec spec_;
};

}  // namespace

Result<std::unique_ptr<Reference>> reference_from_npy(Env& env, const std::string& path) {
  PEN_ASSIGN(auto file, env.open(path, {}));
  std::vector<std::byte> start(npy_start_bytes);
  PEN_ASSIGN(const auto count, file->read_at(start, 0));
  PEN_ASSIGN(const auto header, parse_npy_header(Bytes(start).first(count)), "{}", path);
  PEN_ASSIGN(const auto bytes, header.array.bytes(array_bytes_max), "{}", path);
  PEN_ASSIGN(const auto size, file->size());
  if (size < header.data_offset + bytes)
    return make_error(Errc::truncated, "{} has only {} of the {} bytes that its header announces", path, size,
                      header.data_offset + bytes);
  auto shape = header.array.shape;
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  if (shape.size() != 3)
    return make_error(Errc::unsupported, "{} has {} dimensions; frames are (N, rows, columns)", path, shape.size());
  const ArraySpec spec{header.array.type, {shape[1], shape[2]}};
  PEN_ASSIGN(const auto frame_bytes, spec.bytes(frame_bytes_max), "{}", path);
  return std::unique_ptr<Reference>(
      std::make_unique<NpyReference>(std::move(file), header.data_offset, spec, shape[0], frame_bytes));
}

Result<std::unique_ptr<Reference>> reference_from_simulation(const std::string& json) {
  PEN_ASSIGN(auto simulation, detector::Simulation::from_json(json));
  return std::unique_ptr<Reference>(std::make_unique<SimulationReference>(std::move(simulation)));
}

Result<std::string> recorded_simulation(const Tree& tree) {
  const auto* dataset = tree.find(user_data_path);
  const auto* text = dataset != nullptr && dataset->value ? std::get_if<std::string>(&*dataset->value) : nullptr;
  if (text == nullptr)
    return make_error(Errc::not_found, "the file has no {}, which describes how its frames were simulated",
                      user_data_path);
  const auto document = nlohmann::json::parse(*text, nullptr, false);
  const auto pointer = nlohmann::json::json_pointer("/penstock/simulation");
  if (!document.is_object() || !document.contains(pointer))
    return make_error(Errc::not_found, "{} has no simulation: the frames were not simulated", user_data_path);
  return document.at(pointer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace penstock::check
