/// A dataset's filters as something that expands its chunks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/codec.hpp"
#include "store/hdf5/plugins/filter_plugin.hpp"
#include "store/hdf5/reading/reader.hpp"

namespace penstock::check {

/// Filter plug-ins are code of somebody else in this process, and a file may be made to crash one.
struct Plugins {
  bool used = true;
  std::vector<std::string> folders = {};  ///< before those of HDF5 itself
};

/// Memory of one thread.
struct PipelineScratch {
  CodecScratch codec;
  std::vector<std::byte> raw;
  std::vector<std::byte> between;
  store::FilterScratch filter;
};

/// Knows the encodings of the codec, filter plug-ins that are installed, and HDF5's own shuffle and fletcher32
/// around them. Constant after construction; threads share it.
class Pipeline {
 public:
  /// `unsupported`, naming the filter, where a filter or their order is beyond what is known.
  static Result<Pipeline> of(const std::vector<FilterSpec>& filters, std::size_t element_bytes,
                             const Plugins& plugins = {});

  /// Whether a plug-in expands the chunks: only for those whose checksum is right, as others may crash it.
  bool uses_plugin() const { return plugin_ != nullptr; }
  /// Whether what is expanded may differ from what was stored.
  bool loses_values() const { return plugin_ != nullptr && !store::keeps_all_values(plugin_filter_); }

  /// The chunk's `raw_bytes` bytes: a view of `stored` where nothing is encoded, else of `scratch`,
  /// valid until the next call. `corrupt` where it does not expand to that size.
  Result<Bytes> expand(Bytes stored, std::uint32_t filter_mask, std::size_t raw_bytes, PipelineScratch& scratch) const;

 private:
  enum class Kind { encoding, plugin, shuffle, fletcher32 };
  struct Step {
    Kind kind = Kind::encoding;
    Encoding encoding = Encoding::none;
  };

  Result<Bytes> undo(const Step& step, Bytes stored, std::size_t expanded_bytes, std::vector<std::byte>& into,
                     PipelineScratch& scratch) const;

  std::vector<Step> steps_;  // as they were applied
  std::size_t element_bytes_ = 1;
  std::shared_ptr<const store::FilterPlugin> plugin_;
  FilterSpec plugin_filter_;
};

}  // namespace penstock::check
