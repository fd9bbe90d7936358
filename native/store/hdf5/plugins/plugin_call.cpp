#include "store/hdf5/plugins/plugin_call.hpp"

#include <dlfcn.h>
#include <hdf5.h>

#include <cstdarg>
#include <cstdio>

namespace penstock::store::hdf5 {
namespace {

struct State {
  bool inside = false;
  char report[256] = {};  // no allocation: a plug-in may report that there is no memory
};

thread_local State state;

/// Only the first report is kept: the innermost function makes it.
void keep(const char* format, std::va_list arguments) {
  if (state.report[0] == 0 && format != nullptr)
    (void)std::vsnprintf(state.report, sizeof state.report, format, arguments);
}

/// The library's own function, which the one of the same name in this file hides.
template <typename Function>
Function hidden(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

PluginCall::PluginCall() { state = {.inside = true}; }
PluginCall::~PluginCall() { state.inside = false; }

std::string PluginCall::report() const { return state.report[0] != 0 ? state.report : "it gave no reason"; }

}  // namespace penstock::store::hdf5

using penstock::store::hdf5::hidden;
using penstock::store::hdf5::keep;
using penstock::store::hdf5::state;

extern "C" herr_t H5open() {
  if (state.inside) return 0;  // who loaded the plug-in has opened it
  static const auto library = hidden<herr_t (*)()>("H5open");
  return library != nullptr ? library() : -1;
}

extern "C" herr_t H5Zregister(const void* filter) {
  if (state.inside) return 0;  // in the library it would complete the parameters of each dataset a second time
  static const auto library = hidden<herr_t (*)(const void*)>("H5Zregister");
  return library != nullptr ? library(filter) : -1;
}

// NOLINTNEXTLINE(cert-dcl50-cpp): the signature is HDF5's
extern "C" herr_t H5Epush2(hid_t, const char*, const char*, unsigned, hid_t, hid_t, hid_t, const char* format, ...) {
  if (!state.inside) return -1;  // nobody else pushes errors of his own
  std::va_list arguments;
  va_start(arguments, format);
  keep(format, arguments);
  va_end(arguments);
  return 0;
}

extern "C" herr_t H5Epush1(const char* file, const char* function, unsigned line, H5E_major_t, H5E_minor_t,
                           const char* text) {
  return H5Epush2(H5E_DEFAULT, file, function, line, 0, 0, 0, "%s", text != nullptr ? text : "");
}

extern "C" herr_t H5Eprint2(hid_t stack, FILE* stream) {
  if (state.inside) return 0;
  static const auto library = hidden<herr_t (*)(hid_t, FILE*)>("H5Eprint2");
  return library != nullptr ? library(stack, stream) : -1;
}
