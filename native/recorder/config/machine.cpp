#include "recorder/config/machine.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace penstock::recorder {
namespace {

using nlohmann::json;

constexpr std::string_view node_prefix = "node:";
constexpr std::array<const char*, roles> role_names = {"receive", "compress", "write", "index", "other"};

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
struct FreeTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;

Bitmap empty() { return Bitmap(hwloc_bitmap_alloc()); }

std::string list_of(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, bitmap) < 0 || text == nullptr) return {};
  std::string list(text);
  std::free(text);
  return list;
}

struct Machine {
  Topology topology;
  Bitmap allowed = empty();

  hwloc_const_cpuset_t all() const { return hwloc_topology_get_complete_cpuset(topology.get()); }

  static Result<Machine> look() {
    hwloc_topology_t made = nullptr;
    if (hwloc_topology_init(&made) != 0) return make_error(Errc::internal, "hwloc cannot be started");
    Machine machine{Topology(made)};
    if (hwloc_topology_load(made) != 0) return make_error(Errc::internal, "hwloc cannot read the machine's topology");
    auto* allowed = machine.allowed.get();
    // Of the process, which threads that are not started yet will have.
    if (hwloc_get_cpubind(made, allowed, HWLOC_CPUBIND_THREAD) != 0)
      hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(made));
    hwloc_bitmap_and(allowed, allowed, hwloc_topology_get_allowed_cpuset(made));
    return machine;
  }

  std::string nodes_of(hwloc_const_cpuset_t cpus) const {
    const auto nodes = empty();
    hwloc_cpuset_to_nodeset(topology.get(), cpus, nodes.get());
    return list_of(nodes.get());
  }

  /// The processors of a list, or of NUMA nodes; null where it is neither.
  Bitmap parse(std::string_view text) const {
    auto found = empty();
    const bool nodes = text.starts_with(node_prefix);
    const std::string list(nodes ? text.substr(node_prefix.size()) : text);
    constexpr auto allowed_characters = "0123456789,-";
    if (list.empty() || list.size() > 4096 || list.find_first_not_of(allowed_characters) != std::string::npos)
      return nullptr;
    if (hwloc_bitmap_list_sscanf(found.get(), list.c_str()) != 0 || hwloc_bitmap_iszero(found.get())) return nullptr;
    if (!nodes) return found;
    if (!hwloc_bitmap_isincluded(found.get(), hwloc_topology_get_complete_nodeset(topology.get()))) return empty();
    auto cpus = empty();
    hwloc_cpuset_from_nodeset(topology.get(), cpus.get(), found.get());
    return cpus;
  }
};

CpuMask mask_of(hwloc_const_bitmap_t bitmap) {
  const auto words = hwloc_bitmap_nr_ulongs(bitmap);
  CpuMask mask(words > 0 ? static_cast<std::size_t>(words) : 0);
  hwloc_bitmap_to_ulongs(bitmap, static_cast<unsigned>(mask.size()), mask.data());
  return mask;
}

Result<Bitmap> chosen(const Machine& machine, const char* field, const std::string& text) {
  auto cpus = machine.parse(text);
  if (cpus == nullptr)
    return make_error(Errc::invalid_argument,
                      "machine.{} is \"{}\"; it must be a list of processors such as 0,4-7, or node:0", field, text);
  const auto all = list_of(machine.all());
  if (hwloc_bitmap_iszero(cpus.get()))
    return make_error(Errc::invalid_argument, "machine.{} is \"{}\"; this machine has the NUMA nodes {}", field, text,
                      list_of(hwloc_topology_get_complete_nodeset(machine.topology.get())));
  if (!hwloc_bitmap_isincluded(cpus.get(), machine.all()))
    return make_error(Errc::invalid_argument, "machine.{} is \"{}\"; this machine has the processors {}", field, text,
                      all);
  // Of a node, those that are left to this process will do.
  if (text.starts_with(node_prefix)) hwloc_bitmap_and(cpus.get(), cpus.get(), machine.allowed.get());
  if (hwloc_bitmap_iszero(cpus.get()) || !hwloc_bitmap_isincluded(cpus.get(), machine.allowed.get()))
    return make_error(Errc::invalid_argument,
                      "machine.{} is \"{}\"; this process may use only processors {} (restricted by taskset, "
                      "Slurm, mpirun or a cgroup)",
                      field, text, list_of(machine.allowed.get()));
  return cpus;
}

Result<Placement> find_on(const Machine& machine, const MachineConfig& config) {
  Placement placement;
  placement.allowed = list_of(machine.allowed.get());
  const std::array<const std::string*, roles> texts = {&config.receive, &config.compress, &config.write, &config.index,
                                                       nullptr};
  for (unsigned i = 0; i < roles; ++i) {
    auto& place = placement.places[i];
    place.chosen = texts[i] != nullptr && !texts[i]->empty();
    Bitmap own;
    if (place.chosen) {
      PEN_ASSIGN(own, chosen(machine, role_names[i], *texts[i]));
    }
    const auto* cpus = place.chosen ? own.get() : machine.allowed.get();
    place.cpus = mask_of(cpus);
    place.list = list_of(cpus);
    place.nodes = machine.nodes_of(cpus);
  }
  return placement;
}

json nodes_of(const Machine& machine) {
  json nodes = json::array();
  auto* topology = machine.topology.get();
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;)
    nodes.push_back({{"node", node->os_index},
                     {"cpus", list_of(node->cpuset)},
                     {"memory_bytes", node->attr->numanode.local_memory}});
  return nodes;
}

json cores_of(const Machine& machine) {
  json cores = json::array();
  auto* topology = machine.topology.get();
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;)
    cores.push_back(list_of(core->cpuset));
  return cores;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "madvise" of "always [madvise] never".
std::string transparent_setting() {
  const auto line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const auto from = line.find('['), to = line.find(']');
  return from == std::string::npos || to == std::string::npos ? std::string() : line.substr(from + 1, to - from - 1);
}

std::uint64_t free_huge_pages() {
  const auto line = first_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  return std::strtoull(line.c_str(), nullptr, 10);
}

const char* name_of(HugePages pages) {
  switch (pages) {
    case HugePages::off: return "off";
    case HugePages::transparent: return "transparent";
    case HugePages::reserved: return "explicit";
  }
  return "";
}

/// How many threads of a role there are, for people.
std::string threads_of(unsigned role, const Config& config) {
  switch (static_cast<Role>(role)) {
    case Role::receive: return fmt::format("one a connection, {} sources", config.sources.size());
    case Role::compress: return fmt::format("{}", config.threads);
    case Role::write: return fmt::format("{} a series", config.store.write_threads);
    case Role::index: return "one a series";
    case Role::other: return "time, closing, metrics";
  }
  return "";
}

}  // namespace

Result<Placement> Placement::find(const MachineConfig& config) {
  PEN_ASSIGN(const auto machine, Machine::look());
  return find_on(machine, config);
}

void Placement::apply() const {
  // Threads inherit the place of those that start them, so those without one of their own are told to go back.
  for (unsigned i = 0; i < roles; ++i) set_cpus(static_cast<Role>(i), places[i].cpus);
}

std::string huge_page_trouble(const Config& config) {
  if (config.store.huge_pages == HugePages::off) return {};
  const auto setting = transparent_setting();
  const bool transparent = setting == "always" || setting == "madvise";
  const std::string_view instead = transparent ? "transparent huge pages are used instead" : "ordinary pages are used";
  if (config.store.huge_pages == HugePages::transparent)
    return transparent ? std::string()
                       : fmt::format("machine.huge_pages is \"transparent\", and the system's setting is \"{}\": {}",
                                     setting, instead);
  const auto wanted = config.pool_bytes / huge_page_bytes, free = free_huge_pages();
  if (free >= wanted) return {};
  return fmt::format(
      "machine.huge_pages is \"explicit\": {} huge pages of 2 MiB are free, and the pool takes up to {}; beyond "
      "those "
      "{} (set vm.nr_hugepages)",
      free, wanted, instead);
}

Result<json> describe_placement(const Config& config) {
  PEN_ASSIGN(const auto machine, Machine::look());
  PEN_ASSIGN(const auto placement, find_on(machine, config.machine));
  json threads = json::array();
  for (unsigned i = 0; i < roles; ++i) {
    const auto& place = placement.places[i];
    threads.push_back({{"role", role_names[i]},
                       {"threads", threads_of(i, config)},
                       {"cpus", place.list},
                       {"nodes", place.nodes},
                       {"chosen", place.chosen}});
  }
  const auto trouble = huge_page_trouble(config);
  return json{{"machine",
               {{"cpus", list_of(machine.all())},
                {"allowed", placement.allowed},
                {"cores", cores_of(machine)},
                {"nodes", nodes_of(machine)},
                {"transparent_huge_pages", transparent_setting()},
                {"free_huge_pages", free_huge_pages()}}},
              {"threads", threads},
              {"memory",
               {{"pool_bytes", config.pool_bytes},
                {"frame_bytes", config.frame_pool_bytes()},
                {"segment_bytes_a_series", config.segment_pool_bytes()},
                {"huge_pages", name_of(config.store.huge_pages)},
                {"trouble", trouble.empty() ? json() : json(trouble)}}}};
}

}  // namespace penstock::recorder
