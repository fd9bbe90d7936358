/// What a metadata workload does in its phases.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "load/document.hpp"
#include "load/gaps.hpp"
#include "load/workloads/metadata_plan.hpp"

namespace penstock::load {

enum class Operation {
  tree_create,
  folder_create,
  folder_stat,
  folder_rename,
  folder_remove,
  file_create,
  file_stat,
  file_read,
  file_rename,
  file_remove,
  tree_remove
};
constexpr std::array operation_names = {"tree_create",   "folder_create", "folder_stat", "folder_rename",
                                        "folder_remove", "file_create",   "file_stat",   "file_read",
                                        "file_rename",   "file_remove",   "tree_remove"};
using TimesOfAll = std::array<Times, operation_names.size()>;

inline const char* name(Operation operation) { return operation_names[static_cast<std::size_t>(operation)]; }

/// One operation in one iteration, done by all threads.
struct Phase {
  Operation operation = Operation::tree_create;
  unsigned iteration = 0;
  std::uint64_t operations = 0;
  bool complete = false;
  /// Since the phase began: the first thread that had all its work done; −1 where none had a part in it.
  std::int64_t first_done_ns = -1;
  std::int64_t last_done_ns = -1;
  Gaps gaps;
};

inline bool is_of_trees(Operation operation) {
  return operation == Operation::tree_create || operation == Operation::tree_remove;
}

/// Whether it creates, renames or removes something.
inline bool changes_names(Operation operation) {
  using enum Operation;
  return operation != folder_stat && operation != file_stat && operation != file_read;
}

/// Of an iteration, in their order.
inline std::vector<Operation> operations_of(const MetadataPlan& plan) {
  using enum Operation;
  std::vector<Operation> operations = {tree_create};
  const auto add = [&operations](Operation operation, bool wanted = true) {
    if (wanted) operations.push_back(operation);
  };
  if (plan.folders) {
    add(folder_create);
    add(folder_stat);
    add(folder_rename, plan.rename);
    add(folder_remove, plan.remove);
  }
  if (plan.files) {
    add(file_create);
    add(file_stat);
    add(file_read, plan.file_bytes > 0);
    add(file_rename, plan.rename);
    add(file_remove, plan.remove);
  }
  add(tree_remove, plan.remove);
  return operations;
}

inline Json to_json(const Phase& phase) {
  const auto seconds = [&phase](std::int64_t ns) { return phase.complete && ns >= 0 ? Json(seconds_of(ns)) : Json(); };
  return {{"operation", name(phase.operation)},
          {"iteration", phase.iteration},
          {"operations", phase.operations},
          {"complete", phase.complete},
          {"first_done_s", seconds(phase.first_done_ns)},
          {"last_done_s", seconds(phase.last_done_ns)},
          {"gaps", to_json(phase.gaps)}};
}

}  // namespace penstock::load
