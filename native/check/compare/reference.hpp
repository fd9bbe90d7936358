/// What a file's frames ought to be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/files/env.hpp"
#include "base/result.hpp"
#include "check/structures/index_process.hpp"
#include "frame/array.hpp"

namespace penstock::check {

/// Threads may call it at once, each with a scratch of its own.
class Reference {
 public:
  virtual ~Reference() = default;
  /// [rows, columns] and type of a frame.
  virtual const ArraySpec& frame_spec() const = 0;
  /// The pixels of frame `number`, perhaps in `scratch`; valid until the next call with it.
  virtual Result<Bytes> frame(std::uint64_t number, std::vector<std::byte>& scratch) const = 0;
};

/// Frame n is image n mod N of an array (N, rows, columns), or always the one of (rows, columns).
Result<std::unique_ptr<Reference>> reference_from_npy(Env& env, const std::string& path);

/// Makes the simulated frames again; `json` is what a series' user_data carries as its simulation.
Result<std::unique_ptr<Reference>> reference_from_simulation(const std::string& json);

/// The simulation that the user_data of a recorded file carries.
Result<std::string> recorded_simulation(const Tree& tree);

}  // namespace penstock::check
