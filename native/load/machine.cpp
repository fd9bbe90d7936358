#include "load/machine.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "load/document.hpp"

namespace penstock::load {
namespace {

Json processor_seconds() {
  static constexpr std::array names = {"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"};
  std::ifstream file("/proc/stat");
  std::string label;
  if (!(file >> label) || label != "cpu") return nullptr;
  const auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto seconds = Json::object();
  for (const char* name : names) {
    double ticks = 0;
    if (!(file >> ticks)) return nullptr;
    seconds[name] = ticks / ticks_a_second;
  }
  return seconds;
}

Json memory_bytes() {
  std::ifstream file("/proc/meminfo");
  auto found = Json::object();
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (!(fields >> name >> kibibytes)) continue;
    if (name == "MemTotal:") found["total"] = kibibytes * 1024;
    if (name == "MemAvailable:") found["available"] = kibibytes * 1024;
    if (name == "Dirty:") found["dirty"] = kibibytes * 1024;
    if (name == "Writeback:") found["writeback"] = kibibytes * 1024;
  }
  return found;
}

Json own_usage() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return nullptr;
  return {{"user_s", seconds_of(usage.ru_utime)},
          {"system_s", seconds_of(usage.ru_stime)},
          {"involuntary_switches", usage.ru_nivcsw}};
}

/// Of the thread that the kernel describes in this folder.
std::int64_t wait_of(const std::filesystem::path& task) {
  std::ifstream file(task / "schedstat");
  std::int64_t ran_ns = 0, waited_ns = 0;
  return file >> ran_ns >> waited_ns ? waited_ns : -1;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? std::string(text.data()) : "unknown";
}

Json machine_counters() {
  return {{"processors", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"processor_seconds", processor_seconds()},
          {"own", own_usage()},
          {"memory_bytes", memory_bytes()}};
}

std::int64_t waited_for_processor_ns() { return wait_of("/proc/thread-self"); }

ThreadClock::ThreadClock() : descriptor_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

ThreadClock::~ThreadClock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ThreadClock::Reading ThreadClock::read() const {
  std::array<char, 96> text{};
  const auto size = descriptor_ < 0 ? -1 : ::pread(descriptor_, text.data(), text.size(), 0);
  if (size <= 0) return {};
  const char* const end = text.data() + size;
  Reading found;
  const auto ran = std::from_chars(text.data(), end, found.ran_ns);
  if (ran.ec != std::errc() || ran.ptr == end) return {};
  if (std::from_chars(ran.ptr + 1, end, found.waited_ns).ec != std::errc()) return {};
  return found;
}

std::optional<std::int64_t> longest_wait_ns(std::initializer_list<std::string_view> names) {
  std::optional<std::int64_t> longest;
  std::error_code error;
  // Threads that end meanwhile are passed over.
  for (auto task = std::filesystem::directory_iterator("/proc/self/task", error);
       !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    if (!std::getline(file, name) || std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (const auto waited_ns = wait_of(task->path()); waited_ns >= 0)
      longest = std::max(longest.value_or(0), waited_ns);
  }
  return longest;
}

}  // namespace penstock::load
