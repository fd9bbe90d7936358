#include "load/workloads/metadata_plan.hpp"

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
                    "workload.items: {} makes {} files and directories, which exceeds the maximum of {}", plan.items,
                    names, names_max);
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
    return make_error(Errc::invalid_argument, "workload.threads: {} must be at most {} of all {} ranks", threads,
                      threads_of_all_max, ranks);
  if (shift >= all)
    return make_error(Errc::invalid_argument, "workload.shift: {} exceeds the maximum of {}", shift, all - 1);
  return check_names(*this, ranks);
}

void fields(Archive& archive, MetadataPlan& plan) {
  archive.field("threads", plan.threads, between(1, threads_max));
  archive.required("items", plan.items, between(1, 10'000'000));
  archive.field("depth", plan.depth, between(0, 20));
  archive.field("branch", plan.branch, between(1, 10'000));
  archive.field("shared", plan.shared);
  archive.field("shift", plan.shift, between(0, threads_of_all_max - 1));
  archive.field("iterations", plan.iterations, between(1, 1000));
  archive.field("folders", plan.folders);
  archive.field("files", plan.files);
  archive.field("file_bytes", plan.file_bytes, between(0, file_bytes_max));
  archive.field("rename", plan.rename);
  archive.field("remove", plan.remove);
  if (!archive.sound()) return;
  archive.check(plan.tree_folders() <= tree_folders_max, "branch",
                fmt::format("must be a tree of at most {} folders at depth {}", tree_folders_max, plan.depth));
  archive.check(plan.folders || plan.files, "files", "must be true if folders is false");
  archive.check(plan.files || plan.file_bytes == 0, "file_bytes", "must be 0 without files");
  if (archive.sound()) archive.take(check_names(plan, 1));  // of more ranks it can be counted then
}

}  // namespace penstock::load
