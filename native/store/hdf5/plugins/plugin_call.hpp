/// What HDF5 hears of a filter plug-in that our own threads call: nothing.
///
/// The library is not built for threads, and one thread, the indexer, is inside it most of the time. Plug-ins
/// that are shipped for it call it from their per-chunk function only to report a failure: H5Epush and, hidden in
/// the names of error numbers, H5open. Some register themselves, which nobody needs here. Those functions are
/// defined here a second time; as the program comes before the libraries in the dynamic linker's order, plug-ins get
/// these. On a thread that is inside a `PluginCall` they keep the report and do not enter the library; elsewhere they
/// pass on.
#pragma once

#include <string>

namespace penstock::store::hdf5 {

/// Around one call of a plug-in's function, on the calling thread. Not to be nested.
class PluginCall {
 public:
  PluginCall();
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  /// What the plug-in reported first, or that it gave no reason.
  std::string report() const;
};

}  // namespace penstock::store::hdf5
