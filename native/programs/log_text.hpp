/// Log lines show text that comes from the network.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace penstock::program {

/// spdlog's usual line, in which control characters of the message are shown as \xNN: nobody can forge a line, or
/// send commands to the terminal.
std::unique_ptr<spdlog::formatter> make_log_formatter();

}  // namespace penstock::program
