#include "recorder/series/opening/file_maker.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/time/clock.hpp"
#include "recorder/config/file_name.hpp"
#include "recorder/tree/decode_maps.hpp"
#include "recorder/tree/nexus/nexus_names.hpp"
#include "recorder/tree/nexus/nexus_sensor.hpp"
#include "recorder/tree/possible.hpp"

namespace penstock::recorder {
namespace {

/// Files of one name are numbered up to here.
constexpr unsigned same_names_max = 1000;

/// The path with a number before its suffix.
std::string numbered(const std::string& path, unsigned number) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / fmt::format("{}-{}{}", whole.stem().string(), number, whole.extension().string()))
      .string();
}

}  // namespace

Result<std::shared_ptr<SeriesFile>> FileMaker::make(Series series, bool answered) {
  PEN_ASSIGN(auto path, file_path(config_.folder, config_.file_name, series, realtime_ns()));
  const auto unique_id = series.unique_id;
  decode_maps(series, 0);
  for (const auto& remark : set_aside_impossible(series))
    report_.note("start", remark.with_context(fmt::format("series \"{}\"", unique_id)));
  PEN_ASSIGN(auto file, make(std::move(series), path, answered));
  for (const auto& remark : file->series().remarks)
    report_.note("start", remark.with_context(fmt::format("series \"{}\"", unique_id)));
  warn_of_sensor(file->series());
  const auto before = file->stats().frames_before;
  if (before > 0)
    spdlog::info("series \"{}\" resumes {}, which has {} frames", unique_id, path, before);
  else
    spdlog::info("series \"{}\" is recorded into {}", unique_id, path);
  events_.emit("series_start", {{"series_unique_id", unique_id},
                                {"series_id", file->series().id},
                                {"file", path},
                                {"frames", file->series().frames},
                                {"frames_before", before}});
  return file;
}

/// Logs once an hour for each problem, because the next series have it too. Only diffraction images have a wavelength;
/// a layout of the user has its own names.
void FileMaker::warn_of_sensor(const Series& series) {
  const bool is_diffraction = series.incident_wavelength_angstrom || series.incident_energy_ev;
  if (config_.layout || !is_diffraction || series.frame.shape.size() < 2) return;
  const auto names = NexusNames::of_series(series.user_data_json, config_.nexus);
  const auto problem = sensor_problem(sensor_of(series, names));
  if (!problem.empty() && sensor_warnings_.admit(problem))
    spdlog::warn("series \"{}\": DIALS cannot read its file: {}", series.unique_id, problem);
}

void FileMaker::decode_maps(Series& again, SeriesFile& file) {
  if (again.element) decode_maps(again, file.element_starts().map_bytes());
}

void FileMaker::decode_maps(Series& series, std::uint64_t used_bytes) {
  recorder::decode_maps(series, config_.tables_bytes, used_bytes,
                        [this](const Error& what) { report_.note("start", what); });
}

/// A detector that began to count anew cannot be told that a file has this name already, or that somebody has the one
/// open that would be replaced, and its frames would be lost: the file gets a number.
Result<std::shared_ptr<SeriesFile>> FileMaker::make(Series series, std::string& path, bool answered) {
  const auto make = config_.resume ? &SeriesFile::resume : &SeriesFile::create;
  if (answered || series.resumed) return make(env_, config_, team_, std::move(series), path);
  auto file = make(env_, config_, team_, series, path);
  const auto wanted = path;
  const auto why = file.ok() ? std::string() : file.error().message();
  const auto is_taken = [&] {
    if (file.ok()) return false;
    const auto code = file.error().code();
    return code == Errc::already_exists || (code == Errc::locked && !config_.resume);
  };
  for (unsigned number = 2; is_taken() && number <= same_names_max; ++number) {
    path = numbered(wanted, number);
    // It was the file without a number that was to be overwritten.
    if (config_.store.overwrite && std::filesystem::exists(path)) continue;
    file = make(env_, config_, team_, series, path);
  }
  // Nor that the storage takes no file just now. What may be in a file that was left is not to be made anew.
  if (!file.ok() && may_pass(file.error().code()) && !config_.resume)
    file = SeriesFile::without_file(env_, config_, team_, series, path, file.error());
  if (file.ok() && path != wanted) spdlog::warn("series \"{}\" is recorded into {}: {}", series.unique_id, path, why);
  return file;
}

}  // namespace penstock::recorder
