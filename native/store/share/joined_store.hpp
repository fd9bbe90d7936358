/// The store of a rank that writes into a file which the lead created.
#pragma once

#include <memory>
#include <string>

#include "store/store.hpp"

namespace penstock::store::share {

/// Whether the file is that one: its description segment bears the identity.
Result<bool> is_file(File& file, const SharedFile& expected);

/// As Store::join, whose checks of layout and options have been made.
Result<std::unique_ptr<Store>> join(Env& env, const std::string& path, const FileLayout& layout,
                                    const StoreOptions& options, Listener* listener, Share share,
                                    const SharedFile& file);

}  // namespace penstock::store::share
