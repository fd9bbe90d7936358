/// The C++17 form of penstock.h: header only, RAII, exceptions. Everything that penstock.h says of threads, memory and
/// waiting holds here; docs/reference/client-c.md has both.
///
///     penstock::client::Series series({"127.0.0.1:9900", "scan_0042", penstock::client::type_of<std::uint16_t>(),
///     {512, 1024}}); series.send(penstock::client::View(image));  // copied; std::move(image) is not series.end();
///
/// Failures are exceptions because a constructor begins the series and a constructor has no other way; what is thrown
/// is always an Error, or std::bad_alloc. Destructors never throw and never end a series: one that was left by an
/// exception must not look complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock.h"

namespace penstock::client {

class Error : public std::runtime_error {
 public:
  Error(int status, const std::string& words) : std::runtime_error(words), status_(status) {}
  /// A penstock_status.
  int status() const noexcept { return status_; }

 private:
  int status_;
};

/// A stretch of memory that somebody else owns, as std::span of C++20.
template <typename T>
class View {
 public:
  View(const T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// Of whatever has data() and size(): a vector, an array, a std::span.
  template <typename Container, typename = decltype(std::declval<const Container&>().data())>
  View(const Container& container) noexcept : data_(container.data()), size_(container.size()) {}

  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::uint64_t bytes() const noexcept { return size_ * sizeof(T); }

 private:
  const T* data_;
  std::size_t size_;
};
template <typename Container>
View(const Container&)
    -> View<std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<const Container&>().data())>>>;

/// The penstock_type of pixels of type T.
template <typename T>
constexpr int type_of() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8, "a type of pixels");
  if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? PENSTOCK_FLOAT32 : PENSTOCK_FLOAT64;
  constexpr int exponent = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return (std::is_signed_v<T> ? PENSTOCK_INT8 : PENSTOCK_UINT8) + exponent;
}

/// Metadata: text to values, each key once.
class Map {
 public:
  Map() : map_(penstock_map_new()) {
    if (map_ == nullptr) throw std::bad_alloc();
  }

  Map& set(const std::string& key, const std::string& value) {
    return done(key, penstock_map_text(map_.get(), key.c_str(), value.c_str()));
  }
  Map& set(const std::string& key, const char* value) {
    return done(key, penstock_map_text(map_.get(), key.c_str(), value));
  }
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Map& set(const std::string& key, T value) {
    if constexpr (std::is_same_v<T, bool>)
      return done(key, penstock_map_boolean(map_.get(), key.c_str(), value));
    else if constexpr (std::is_floating_point_v<T>)
      return done(key, penstock_map_number(map_.get(), key.c_str(), static_cast<double>(value)));
    else if constexpr (std::is_unsigned_v<T>)
      return done(key, penstock_map_unsigned(map_.get(), key.c_str(), value));
    else
      return done(key, penstock_map_integer(map_.get(), key.c_str(), value));
  }
  Map& set(const std::string& key, const std::vector<double>& values) {
    return done(key, penstock_map_numbers(map_.get(), key.c_str(), values.data(), values.size()));
  }
  Map& set(const std::string& key, const Map& value) {
    return done(key, penstock_map_map(map_.get(), key.c_str(), value.get()));
  }
  Map& set(const std::string& key, const std::vector<Map>& values) {
    std::vector<const penstock_map*> maps;
    for (const auto& each : values) maps.push_back(each.get());
    return done(key, penstock_map_maps(map_.get(), key.c_str(), maps.data(), maps.size()));
  }
  /// An array of the start message, such as a mask; the slowest dimension first.
  template <typename T>
  Map& set_array(const std::string& key, const std::vector<std::uint64_t>& shape, View<T> elements) {
    std::uint64_t count = 1;
    for (const auto size : shape) count *= size;
    if (count != elements.size()) throw Error(PENSTOCK_INVALID, key + ": the shape has a different number of elements");
    return done(key,
                penstock_map_array(map_.get(), key.c_str(), type_of<T>(), shape.data(), shape.size(), elements.data()));
  }
  void clear() { penstock_map_clear(map_.get()); }
  const penstock_map* get() const noexcept { return map_.get(); }

 private:
  struct Free {
    void operator()(penstock_map* map) const noexcept { penstock_map_free(map); }
  };
  Map& done(const std::string& key, int status) {
    if (status == PENSTOCK_NO_MEMORY) throw std::bad_alloc();
    if (status != PENSTOCK_OK)
      throw Error(status, "metadata \"" + key + "\": it exists already, or the value is missing");
    return *this;
  }
  std::unique_ptr<penstock_map, Free> map_;
};

struct Element {
  std::uint32_t rows, columns, number;
  /// Pixels between each row of elements and the next, and each column and the next; empty: they touch.
  std::vector<std::uint32_t> row_gaps = {}, column_gaps = {};
};

/// What a series is; times are milliseconds. The first four are required.
struct Options {
  std::string address;               ///< host:port
  std::string name;                  ///< names the series for ever, and the file
  int type = 0;                      ///< type_of<std::uint16_t>()
  std::vector<std::uint64_t> shape;  ///< rows, columns; or planes, rows, columns

  std::uint64_t frames = 0;  ///< 0: open end
  std::vector<std::string> channels = {"0"};
  std::uint64_t series_id = 1;
  std::string token = {};
  std::string program = "libpenstock";
  const Map* metadata = nullptr;   ///< fields of the start message; copied
  const Map* user_data = nullptr;  ///< copied
  std::optional<Element> element = std::nullopt;
  bool resume = false;
  std::uint64_t resend_bytes = std::uint64_t{1} << 30;
  std::uint64_t resend_frames = 65536;
  std::int64_t connect_timeout_ms = 10'000;
  std::int64_t reconnect_timeout_ms = 60'000;
  std::int64_t answer_timeout_ms = 600'000;
  std::int64_t close_timeout_ms = 600'000;
};

/// What belongs to a frame beside its pixels.
struct FrameInfo {
  std::uint64_t number = PENSTOCK_NEXT;
  const Map* metadata = nullptr;
  std::int64_t start_time_ns = PENSTOCK_NO_TIME;
  std::int64_t stop_time_ns = PENSTOCK_NO_TIME;
  std::int64_t real_time_ns = PENSTOCK_NO_TIME;
  std::int64_t timeout_ms = PENSTOCK_FOREVER;  ///< for room
};

/// Pixels of one channel, compressed or not.
struct Pixels {
  std::string channel;
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  int encoding = PENSTOCK_PLAIN;
};

struct Refusal {
  std::uint64_t number;
  std::string reason;
};

class Series {
 public:
  /// Connects, and starts the series.
  explicit Series(const Options& options) : series_(penstock_new()), type_(options.type) {
    if (series_ == nullptr) throw std::bad_alloc();
    auto* series = series_.get();
    check(penstock_set_address(series, options.address.c_str()));
    check(penstock_set_name(series, options.name.c_str()));
    check(penstock_set_type(series, options.type));
    check(penstock_set_shape(series, options.shape.data(), options.shape.size()));
    check(penstock_set_frames(series, options.frames));
    for (const auto& channel : options.channels) check(penstock_add_channel(series, channel.c_str()));
    check(penstock_set_series_id(series, options.series_id));
    check(penstock_set_token(series, options.token.c_str()));
    check(penstock_set_program(series, options.program.c_str()));
    if (options.metadata != nullptr) check(penstock_set_metadata(series, options.metadata->get()));
    if (options.user_data != nullptr) check(penstock_set_user_data(series, options.user_data->get()));
    if (options.element) set_element(*options.element);
    check(penstock_set_resume(series, options.resume ? 1 : 0));
    check(penstock_set_resend(series, options.resend_bytes, options.resend_frames));
    check(penstock_set_timeout(series, PENSTOCK_CONNECT_TIMEOUT, options.connect_timeout_ms));
    check(penstock_set_timeout(series, PENSTOCK_RECONNECT_TIMEOUT, options.reconnect_timeout_ms));
    check(penstock_set_timeout(series, PENSTOCK_ANSWER_TIMEOUT, options.answer_timeout_ms));
    check(penstock_set_timeout(series, PENSTOCK_CLOSE_TIMEOUT, options.close_timeout_ms));
    check(penstock_begin(series));
  }

  /// One channel; the pixels are copied.
  template <typename T>
  void send(View<T> image, const FrameInfo& info = {}) {
    check_type<T>();
    send({Pixels{{}, image.data(), image.bytes(), PENSTOCK_PLAIN}}, info);
  }
  /// One channel; the pixels are sent from where they lie, and `owner` is kept until they are acknowledged. Nobody
  /// changes them until then.
  template <typename T>
  void send(View<T> image, std::shared_ptr<const void> owner, const FrameInfo& info = {}) {
    check_type<T>();
    send({Pixels{{}, image.data(), image.bytes(), PENSTOCK_PLAIN}}, std::move(owner), info);
  }
  /// One channel; nothing is copied.
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  void send(std::vector<T>&& image, const FrameInfo& info = {}) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(image));
    const View<T> pixels(owner->data(), owner->size());
    send(pixels, std::move(owner), info);
  }
  /// Any channels, any encoding; copied, or with an owner not. A channel without a name is the only one.
  void send(const std::vector<Pixels>& channels, const FrameInfo& info = {}) { send(channels, nullptr, info); }
  void send(const std::vector<Pixels>& channels, std::shared_ptr<const void> owner, const FrameInfo& info = {}) {
    pixels_.clear();
    for (const auto& each : channels)
      pixels_.push_back(
          {each.channel.empty() ? nullptr : each.channel.c_str(), each.data, each.bytes, each.encoding, 0, nullptr});
    penstock_frame frame = PENSTOCK_FRAME_INIT;
    frame.pixels = pixels_.data();
    frame.pixels_count = pixels_.size();
    frame.number = info.number;
    frame.metadata = info.metadata == nullptr ? nullptr : info.metadata->get();
    frame.start_time_ns = info.start_time_ns;
    frame.stop_time_ns = info.stop_time_ns;
    frame.real_time_ns = info.real_time_ns;
    frame.timeout_ms = info.timeout_ms;
    if (owner != nullptr) {
      frame.release_context = new std::shared_ptr<const void>(std::move(owner));
      frame.release = [](void* context) { delete static_cast<std::shared_ptr<const void>*>(context); };
    }
    check(penstock_send(series_.get(), &frame));
  }

  void poll() { check(penstock_poll(series_.get())); }
  void wait_acknowledged(std::int64_t timeout_ms = PENSTOCK_FOREVER) {
    check(penstock_wait_acknowledged(series_.get(), timeout_ms));
  }
  /// Ends the series and waits until the recorder has closed the file. A series that goes out of scope without it stays
  /// open at the recorder, for who resumes it.
  void end() { check(penstock_end(series_.get())); }

  /// What keeps the recorder from taking frames, in its own words; empty if nothing does.
  std::string state() const { return penstock_state(series_.get()); }
  std::uint64_t sent() const noexcept { return count(PENSTOCK_COUNT_SENT); }
  std::uint64_t acknowledged() const noexcept { return count(PENSTOCK_COUNT_ACKNOWLEDGED); }
  std::uint64_t safe_below() const noexcept { return count(PENSTOCK_COUNT_SAFE_BELOW); }
  std::uint64_t waiting() const noexcept { return count(PENSTOCK_COUNT_WAITING); }
  std::uint64_t waiting_bytes() const noexcept { return count(PENSTOCK_COUNT_WAITING_BYTES); }
  std::uint64_t resent() const noexcept { return count(PENSTOCK_COUNT_RESENT); }
  std::uint64_t reconnects() const noexcept { return count(PENSTOCK_COUNT_RECONNECTS); }
  std::uint64_t refused_count() const noexcept { return count(PENSTOCK_COUNT_REFUSED); }
  /// The first thousand frames that the recorder would not have.
  std::vector<Refusal> refused() const {
    std::vector<Refusal> found;
    std::uint64_t number = 0;
    const char* reason = nullptr;
    while (penstock_refused(series_.get(), found.size(), &number, &reason) == PENSTOCK_OK)
      found.push_back({number, reason});
    return found;
  }
  /// The moment that start_time_ns and stop_time_ns count from, in nanoseconds since 1970.
  std::int64_t date_ns() const noexcept { return penstock_date_ns(series_.get()); }

 private:
  struct Free {
    void operator()(penstock_series* series) const noexcept { penstock_free(series); }
  };
  std::uint64_t count(int which) const noexcept { return penstock_count(series_.get(), which); }
  void check(int status) const {
    if (status == PENSTOCK_NO_MEMORY) throw std::bad_alloc();
    if (status != PENSTOCK_OK) throw Error(status, penstock_error(series_.get()));
  }
  void set_element(const Element& element) const {
    check(penstock_set_element(series_.get(), element.rows, element.columns, element.number));
    const auto &rows = element.row_gaps, &columns = element.column_gaps;
    if (!rows.empty() || !columns.empty())
      check(penstock_set_element_gaps(series_.get(), rows.data(), rows.size(), columns.data(), columns.size()));
  }
  template <typename T>
  void check_type() const {
    if (type_of<T>() != type_) throw Error(PENSTOCK_INVALID, "the image's pixel type differs from that of the series");
  }

  std::unique_ptr<penstock_series, Free> series_;
  std::vector<penstock_pixels> pixels_;
  int type_;
};

}  // namespace penstock::client
