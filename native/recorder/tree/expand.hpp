/// Arrays as they were sent become arrays as the file has them.
#pragma once

#include "codec/codec.hpp"
#include "frame/wire_form.hpp"

namespace penstock::recorder {

/// How an array came.
struct Sent {
  Encoding encoding = Encoding::none;
  WireForm form = {};
};

/// Decodes `bytes` and makes the elements right. `into` has the size of `spec`; `bytes`, where they are not encoded,
/// have been seen to have that of what was sent.
Result<void> expand(const Sent& sent, const ArraySpec& spec, Bytes bytes, MutableBytes into, CodecScratch& scratch);

}  // namespace penstock::recorder
