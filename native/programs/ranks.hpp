/// What programs share that are built alone, and once more for each implementation of MPI (PENSTOCK_MPI): the one that
/// is built alone makes way for these where a launcher of jobs started it, so that users need to know one name.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "job/job.hpp"

namespace penstock {

#ifdef PENSTOCK_MPI
inline Result<std::unique_ptr<job::Job>> make_job(int& argc, char**& argv, job::Calls from) {
  return job::join_mpi(argc, argv, from);
}
#else
/// Where mpirun started this program, the one that was built for its MPI takes over and this does not return.
inline Result<std::unique_ptr<job::Job>> make_job(int&, char**& argv, job::Calls) {
  const auto set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  const bool openmpi = set("OMPI_COMM_WORLD_SIZE") || set("PMIX_RANK");
  if (!openmpi && !set("PMI_RANK")) return job::make_alone();
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto other = self + (openmpi ? "-openmpi" : "-mpich");
  ::execv(other.c_str(), argv);
  return errno_error(errno, fmt::format("start {}, which runs as a rank of this MPI; {}", other,
                                        openmpi ? "install libopenmpi-dev and build again"
                                                : "install libmpich-dev and build with PENSTOCK_MPI=both"));
}
#endif

/// Whoever started a job ends it by ending its input; anything that comes before is a word to end the open series.
enum class Input { none, end_series, stop, ended };
inline Input read_input() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, 0) <= 0) return Input::none;
  char text[256];
  const auto got = ::read(STDIN_FILENO, text, sizeof text);
  if (got == 0) return Input::ended;
  const std::string_view words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  if (words.find("stop") != std::string_view::npos) return Input::stop;
  return words.find("end") != std::string_view::npos ? Input::end_series : Input::none;
}

}  // namespace penstock
