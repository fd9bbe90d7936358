#include "load/metadata_plan.hpp"

#include "base/bytes.hpp"

namespace penstock::load {
namespace {

constexpr std::uint64_t threads_max = 256;
constexpr std::uint64_t threads_of_all_max = 65536;
constexpr std::uint64_t tree_folders_max = 1'000'000;
constexpr std::uint64_t names_max = 1'000'000'000;
constexpr std::uint64_t file_bytes_max = std::uint64_t{1} << 26;

Result<void> check_names(const MetadataPlan& plan, unsigned ranks) {
  const auto names = plan.names_made(ranks);
  if (names <= names_max) return {};
  return make_error(Errc::invalid_argument,
                    "workload.items is {}, expected so few that a run makes at most {} files and folders, not {}",
                    plan.items, names_max, names);
}

}  // namespace

std::uint64_t MetadataPlan::tree_folders() const {
  std::uint64_t all = 1, level = 1;
  for (unsigned i = 0; i < depth && all <= tree_folders_max; ++i) {
    level *= branch;
    all += level;
  }
  return all;
}

std::uint64_t MetadataPlan::names_made(unsigned ranks) const {
  const std::uint64_t kinds = (folders ? 1U : 0U) + (files ? 1U : 0U);
  return iterations * tree_folders() * (trees(ranks) + kinds * threads_of(ranks) * items);
}

Result<void> MetadataPlan::check(unsigned ranks) const {
  const auto all = threads_of(ranks);
  if (all > threads_of_all_max)
    return make_error(Errc::invalid_argument, "workload.threads is {}, expected at most {} of all {} ranks", threads,
                      threads_of_all_max, ranks);
  if (shift >= all)
    return make_error(Errc::invalid_argument, "workload.shift is {}, expected a whole number from 0 to {}", shift,
                      all - 1);
  return check_names(*this, ranks);
}

Result<MetadataPlan> MetadataPlan::read(Fields& fields) {
  MetadataPlan plan;
  PEN_ASSIGN(const auto threads, fields.whole("threads", 1, 1, threads_max));
  plan.threads = static_cast<unsigned>(threads);
  PEN_TRY(fields.require("items"));
  PEN_ASSIGN(plan.items, fields.whole("items", 0, 1, 10'000'000));
  PEN_ASSIGN(const auto depth, fields.whole("depth", 0, 0, 20));
  plan.depth = static_cast<unsigned>(depth);
  PEN_ASSIGN(const auto branch, fields.whole("branch", 1, 1, 10'000));
  plan.branch = static_cast<unsigned>(branch);
  if (plan.tree_folders() > tree_folders_max)
    return fields.wrong("branch", fmt::format("a tree of at most {} folders at depth {}", tree_folders_max, depth));
  PEN_ASSIGN(plan.shared, fields.flag("shared", false));
  PEN_ASSIGN(const auto shift, fields.whole("shift", 0, 0, threads_of_all_max - 1));
  plan.shift = static_cast<unsigned>(shift);
  PEN_ASSIGN(const auto iterations, fields.whole("iterations", 1, 1, 1000));
  plan.iterations = static_cast<unsigned>(iterations);
  PEN_ASSIGN(plan.folders, fields.flag("folders", true));
  PEN_ASSIGN(plan.files, fields.flag("files", true));
  if (!plan.folders && !plan.files) return fields.wrong("files", "true where folders is false");
  PEN_ASSIGN(plan.file_bytes, fields.whole("file_bytes", 0, 0, file_bytes_max));
  if (plan.file_bytes > 0 && !plan.files) return fields.wrong("file_bytes", "0 without files");
  PEN_ASSIGN(plan.rename, fields.flag("rename", false));
  PEN_ASSIGN(plan.remove, fields.flag("remove", true));
  PEN_TRY(check_names(plan, 1));  // of more ranks it can be counted then
  return plan;
}

Json MetadataPlan::to_json() const {
  return {{"kind", "metadata"}, {"threads", threads}, {"items", items},           {"depth", depth},
          {"branch", branch},   {"shared", shared},   {"shift", shift},           {"iterations", iterations},
          {"folders", folders}, {"files", files},     {"file_bytes", file_bytes}, {"rename", rename},
          {"remove", remove}};
}

}  // namespace penstock::load
