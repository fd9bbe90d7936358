#include "base/instances.hpp"

template void fmt::detail::vformat_to<char>(buffer<char>&, basic_string_view<char>,
                                            basic_format_args<buffer_context<char>>, locale_ref);
template class nlohmann::basic_json<>;
