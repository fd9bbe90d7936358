#include "base/result.hpp"

#include <cerrno>
#include <variant>

#include "base/errno_words.hpp"

namespace penstock {

std::string_view name(Errc code) {
  switch (code) {
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::out_of_memory: return "out_of_memory";
    case Errc::cancelled: return "cancelled";
    case Errc::timed_out: return "timed_out";
    case Errc::internal: return "internal";
    case Errc::malformed: return "malformed";
    case Errc::truncated: return "truncated";
    case Errc::too_large: return "too_large";
    case Errc::unsupported: return "unsupported";
    case Errc::out_of_order: return "out_of_order";
    case Errc::mismatch: return "mismatch";
    case Errc::refused: return "refused";
    case Errc::no_place: return "no_place";
    case Errc::io: return "io";
    case Errc::not_found: return "not_found";
    case Errc::already_exists: return "already_exists";
    case Errc::permission: return "permission";
    case Errc::no_space: return "no_space";
    case Errc::locked: return "locked";
    case Errc::disconnected: return "disconnected";
    case Errc::corrupt: return "corrupt";
    case Errc::hdf5: return "hdf5";
  }
  return "unknown";
}

Error Error::with_context(std::string_view context) const {
  return Error(code_, fmt::format("{}: {}", context, message_));
}

namespace detail {
void wrong_alternative() { throw std::bad_variant_access(); }
}  // namespace detail

static Errc code_of_errno(int errnum) {
  switch (errnum) {
    case ENOENT:
    case ENOTDIR: return Errc::not_found;
    case EEXIST: return Errc::already_exists;
    case EACCES:
    case EPERM:
    case EROFS: return Errc::permission;
    case ENOSPC:
    case EDQUOT: return Errc::no_space;
    case EAGAIN: return Errc::locked;
    case ENOMEM: return Errc::out_of_memory;
    case ECONNRESET:
    case EPIPE: return Errc::disconnected;
    default: return Errc::io;
  }
}

std::string reason_of_errno(int errnum) {
  switch (errnum) {
    case ENOENT: return "it does not exist";
    case EACCES: return "permission denied";
    case EPERM: return "the operation is not permitted";
    case EISDIR: return "it is a directory";
    case ENOTDIR: return "a part of the path is not a directory";
    case EEXIST: return "it exists already";
    case ENOTEMPTY: return "the directory is not empty";
    case ENOSPC: return "no space left on the storage";
    case EDQUOT: return "the disk quota is exceeded";
    case EROFS: return "the file system is read-only";
    case EIO: return "the storage reports an input/output error";
    case ESTALE: return "the file server no longer knows the file (stale handle)";
    case ENAMETOOLONG: return "the name is too long";
    case ELOOP: return "the path has too many symbolic links";
    case EMFILE: return "this process has too many open files (ulimit -n)";
    case ENFILE: return "this machine has too many open files";
    case ENOMEM: return "this machine is out of memory";
    case EAGAIN: return "the resource is temporarily unavailable";
    case EBUSY: return "it is in use";
    case EFBIG: return "the file would exceed the maximum file size (ulimit -f)";
    case ENXIO:
    case ENODEV: return "no such device";
    case EINVAL: return "the file system or the kernel rejects the request";
    case EOPNOTSUPP:
    case errno_not_supported: return "the file system does not support the operation";
    case ENOSYS: return "the kernel or the file system lacks the operation";
    case ENOLCK: return "the file system or its server has no locks";
    case EINTR: return "signals or the file system interrupt it";
    case ECONNREFUSED: return "connection refused: no program listens there";
    case ECONNRESET:
    case EPIPE: return "the other side closed the connection";
    case EHOSTUNREACH: return "the host is unreachable";
    case ENETUNREACH: return "the network is unreachable";
    case ETIMEDOUT: return "the other side did not answer in time";
    case EADDRINUSE: return "the address is in use by another program";
    case EADDRNOTAVAIL: return "this machine does not have the address";
    case EPROTONOSUPPORT: return "the protocol is not supported";
    default: return fmt::format("the system reports error {}", errnum);
  }
}

Error errno_error(int errnum, std::string_view what) {
  return make_error(code_of_errno(errnum), "{}: {}", what, reason_of_errno(errnum));
}

}  // namespace penstock
