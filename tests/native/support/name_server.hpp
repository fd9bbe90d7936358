/// A name server that does not answer for a while. In one source of a program.
#pragma once

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>

namespace penstock::test {

/// Look-ups that fail from now on, before others succeed.
inline std::atomic<int> failing_lookups{0};

}  // namespace penstock::test

/// In place of the C library's.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  if (penstock::test::failing_lookups > 0) {
    --penstock::test::failing_lookups;
    return EAI_AGAIN;
  }
  static const auto original = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return original(host, port, hints, found);
}
