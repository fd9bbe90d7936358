"""Storage that answers each write late, however many are under way: as one far away does, or an array.

No device of this kind is at hand without a kernel module, so a library that is loaded in front of the C
library (ld.so(8), LD_PRELOAD) sleeps behind each large `pwritev`. Throughput is then the number of bytes
under way divided by the delay (Little's law), and whoever has the fewest bytes under way sets it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from measure.process import BenchmarkError, run

_SMALLEST_BYTES = 64 << 10
_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

typedef ssize_t (*Write)(int, const struct iovec *, int, off_t);

static ssize_t late(const char *name, int file, const struct iovec *pieces, int count, off_t offset) {
  const Write next = (Write)dlsym(RTLD_NEXT, name);
  const ssize_t written = next(file, pieces, count, offset);
  const int error = errno;
  if (written >= SMALLEST) {
    const struct timespec delay = {DELAY_MS / 1000, DELAY_MS % 1000 * 1000000L};
    nanosleep(&delay, 0);
  }
  errno = error;
  return written;
}

ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t offset) {
  return late("pwritev", file, pieces, count, offset);
}

ssize_t pwritev64(int file, const struct iovec *pieces, int count, off_t offset) {
  return late("pwritev64", file, pieces, count, offset);
}
"""


def slow_writes(folder: Path, delay_ms: int) -> dict[str, str]:
    """Returns the environment in which large writes take `delay_ms` longer; the library is in `folder`."""
    if shutil.which("cc") is None:
        raise BenchmarkError("writes are delayed by a library that the C compiler `cc` makes")
    source, library = folder / "slow_writes.c", folder / "slow_writes.so"
    source.write_text(_SOURCE, encoding="utf-8")
    values = [f"-DDELAY_MS={delay_ms}", f"-DSMALLEST={_SMALLEST_BYTES}"]
    run(["cc", "-O2", "-shared", "-fPIC", *values, "-o", str(library), str(source), "-ldl"])
    return {"LD_PRELOAD": str(library)}
