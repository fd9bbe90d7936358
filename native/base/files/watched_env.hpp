/// An Env whose files' calls are watched (base/call_watch.hpp); what they do is another's.
#pragma once

#include "base/files/call_watch.hpp"
#include "base/files/env.hpp"

namespace penstock {

/// Both outlive it and its files.
std::unique_ptr<Env> make_watched_env(Env& env, CallWatch& watch);

}  // namespace penstock
