/* A file system that refuses, for a program that this library is preloaded into.
 *
 * PENSTOCK_REFUSALS says which calls fail with which errors: "lock=37,open=95,transfer=22,reserve=4". `open` and
 * `transfer` are those with direct I/O; everything else is the C library's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

/* The error of a kind; 0: it succeeds. */
static int error_of(const char* kind) {
  const char* all = getenv("PENSTOCK_REFUSALS");
  const size_t length = strlen(kind);
  for (const char* at = all; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, kind, length) == 0 && at[length] == '=') return atoi(at + length + 1);
  }
  return 0;
}

static int refuses(const char* kind) {
  const int error = error_of(kind);
  if (error != 0) errno = error;
  return error != 0;
}

static int is_direct(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int flock(int descriptor, int how) { return refuses("lock") ? -1 : REAL(flock)(descriptor, how); }

int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  return mode == 0 && refuses("reserve") ? -1 : REAL(fallocate)(descriptor, mode, offset, size);
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t size) {
  return mode == 0 && refuses("reserve") ? -1 : REAL(fallocate64)(descriptor, mode, offset, size);
}

static int opened(int folder, const char* path, int flags, mode_t mode) {
  if ((flags & O_DIRECT) != 0 && refuses("open")) return -1;
  return REAL(openat64)(folder, path, flags, mode);
}

#define MODE_OF(flags)                            \
  mode_t mode = 0;                                \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list more;                                 \
    va_start(more, flags);                        \
    mode = (mode_t)va_arg(more, unsigned);        \
    va_end(more);                                 \
  }

int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return opened(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags)
  return opened(folder, path, flags, mode);
}

int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  return opened(AT_FDCWD, path, flags, mode);
}

ssize_t pwritev(int descriptor, const struct iovec* pieces, int count, off_t offset) {
  return is_direct(descriptor) && refuses("transfer") ? -1 : REAL(pwritev)(descriptor, pieces, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec* pieces, int count, off64_t offset) {
  return is_direct(descriptor) && refuses("transfer") ? -1 : REAL(pwritev64)(descriptor, pieces, count, offset);
}
