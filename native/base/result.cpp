#include "base/result.hpp"

#include <cerrno>
#include <cstring>
#include <variant>

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

Error errno_error(int errnum, std::string_view what) {
  char text[128];
  return make_error(code_of_errno(errnum), "{}: {} (errno {})", what, strerror_r(errnum, text, sizeof text), errnum);
}

}  // namespace penstock
