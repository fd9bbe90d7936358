/// Peer: the system calls of a metadata workload in bare loops, for the same names in the same order, with a look at
/// the clock a phase and no more.
///
/// bare_metadata FOLDER ITEMS DEPTH BRANCH BYTES. One thread. Prints one JSON object, seconds by operation.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void expect(bool fine, const char* path) {
  if (fine) return;
  perror(path);
  exit(1);
}

std::vector<std::string> folders_of_tree(unsigned depth, unsigned branch) {
  std::vector<std::string> folders = {"load-000000000"};
  std::size_t begin = 0;
  for (unsigned level = 0; level < depth; ++level) {
    const auto end = folders.size();
    for (; begin < end; ++begin)
      for (unsigned i = 0; i < branch; ++i) folders.push_back(folders[begin] + "/t" + std::to_string(i));
  }
  return folders;
}

template <typename Call>
double each_item(const std::vector<std::string>& folders, char letter, unsigned long items, Call call) {
  char path[4096];
  const double begin_s = now_s();
  for (const auto& folder : folders) {
    const int length = snprintf(path, sizeof path, "%s/%c000-000000000", folder.c_str(), letter);
    for (unsigned long i = 0; i < items; ++i) {
      expect(call(static_cast<const char*>(path)), path);
      char* digit = path + length - 1;
      for (; *digit == '9'; --digit) *digit = '0';
      ++*digit;
    }
  }
  return now_s() - begin_s;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) return 2;
  const int root = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  expect(root >= 0, arguments[1]);
  const auto items = strtoul(arguments[2], nullptr, 10);
  const auto depth = static_cast<unsigned>(strtoul(arguments[3], nullptr, 10));
  const auto folders = folders_of_tree(depth, static_cast<unsigned>(strtoul(arguments[4], nullptr, 10)));
  const std::vector<char> bytes(strtoul(arguments[5], nullptr, 10), 'x');
  std::vector<char> into(bytes.size());

  const auto stat_of = [root](const char* path) {
    struct stat status;
    return fstatat(root, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
  };
  const double tree_begin_s = now_s();
  for (const auto& folder : folders) expect(mkdirat(root, folder.c_str(), 0777) == 0, folder.c_str());
  printf("{\"tree_create\": %.9f", now_s() - tree_begin_s);
  const auto phase = [&](const char* name, char letter, auto call) {
    printf(", \"%s\": %.9f", name, each_item(folders, letter, items, call));
  };
  phase("folder_create", 'd', [root](const char* path) { return mkdirat(root, path, 0777) == 0; });
  phase("folder_stat", 'd', stat_of);
  phase("folder_remove", 'd', [root](const char* path) { return unlinkat(root, path, AT_REMOVEDIR) == 0; });
  phase("file_create", 'f', [root, &bytes](const char* path) {
    const int file = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return false;
    const bool written = bytes.empty() || write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    return close(file) == 0 && written;
  });
  phase("file_stat", 'f', stat_of);
  if (!bytes.empty()) {
    phase("file_read", 'f', [root, &into](const char* path) {
      const int file = openat(root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
      if (file < 0) return false;
      const bool whole = read(file, into.data(), into.size()) == static_cast<ssize_t>(into.size());
      return close(file) == 0 && whole;
    });
  }
  phase("file_remove", 'f', [root](const char* path) { return unlinkat(root, path, 0) == 0; });
  const double removal_begin_s = now_s();
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    expect(unlinkat(root, folder->c_str(), AT_REMOVEDIR) == 0, folder->c_str());
  printf(", \"tree_remove\": %.9f}\n", now_s() - removal_begin_s);
  return 0;
}
