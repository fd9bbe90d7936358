#include "client/series.h"

#include <stdio.h>
#include <string.h>

enum { TAG_ARRAY = 40, TAG_COMPRESSED = 56500, SECOND_NS = 1000000000 };

static const uint8_t self_described[] = {0xd9, 0xd9, 0xf7};

static int invalid(penstock_series* series, const char* why) {
  return pst_fail(&series->session, PENSTOCK_INVALID, "%s", why);
}

/* RFC 3339, in UTC. Days to dates as in the proleptic Gregorian calendar, counted from 1 March of the year 0. */
static void date_of(int64_t since_1970_ns, char* into, size_t size) {
  const int64_t seconds = since_1970_ns / SECOND_NS;
  const int64_t days = seconds / 86400 + 719468;
  const int64_t era = days / 146097;
  const int64_t day_of_era = days % 146097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  const int64_t year = era * 400 + year_of_era + (month <= 2);
  (void)snprintf(into, size, "%04d-%02d-%02dT%02d:%02d:%02d.%09dZ", (int)year, (int)month, (int)day,
                 (int)(seconds % 86400 / 3600), (int)(seconds % 3600 / 60), (int)(seconds % 60),
                 (int)(since_1970_ns % SECOND_NS));
}

static void put_ids(pst_buffer* buffer, const penstock_series* series) {
  pst_key_unsigned(buffer, "series_id", series->series_id);
  pst_key_text(buffer, "series_unique_id", series->session.name);
}

/* Nobody else's, and the same for all connections: moment, process and address of the first penstock_begin(). */
static void name_client(penstock_series* series) {
  if (series->client[0] != 0) return;
  (void)snprintf(series->client, sizeof(series->client), "%llx-%llx-%llx", (unsigned long long)pst_realtime_ns(),
                 (unsigned long long)pst_process_id(), (unsigned long long)(uintptr_t)series);
}

static void encode_hello(penstock_series* series, pst_buffer* buffer) {
  const int has_token = series->token != NULL && series->token[0] != 0;
  pst_bytes(buffer, self_described, sizeof(self_described));
  pst_head(buffer, PST_MAP, has_token ? 6 : 5);
  pst_key_text(buffer, "type", "hello");
  pst_key_text(buffer, "name", series->program != NULL ? series->program : "libpenstock");
  pst_key_text(buffer, "client", series->client);
  pst_key_unsigned(buffer, "window_frames", series->session.window.count_max);
  pst_key_unsigned(buffer, "window_bytes", series->session.window.bytes_max);
  if (has_token) pst_key_text(buffer, "token", series->token);
}

static int encode_start(penstock_series* series, pst_buffer* buffer) {
  static const char* const sizes[] = {"image_size_x", "image_size_y", "image_size_z"};
  const int has_element = series->element.count > 0;
  const int has_user_data = series->has_user_data || has_element;
  penstock_map with_element;
  size_t i;
  int status = PENSTOCK_OK;
  memset(&with_element, 0, sizeof(with_element));
  pst_bytes(buffer, self_described, sizeof(self_described));
  pst_head(buffer, PST_MAP,
           6 + series->dimensions + (series->frames > 0) + (uint64_t)has_user_data + series->metadata.count);
  pst_key_text(buffer, "type", "start");
  put_ids(buffer, series);
  pst_key_text(buffer, "arm_date", series->date);
  pst_text(buffer, "channels");
  pst_head(buffer, PST_ARRAY, series->channels_count);
  for (i = 0; i < series->channels_count; ++i) pst_text(buffer, series->channels[i]);
  pst_key_text(buffer, "image_dtype", pst_type_name(series->type));
  for (i = 0; i < series->dimensions; ++i)
    pst_key_unsigned(buffer, sizes[i], series->shape[series->dimensions - 1 - i]);
  if (series->frames > 0) pst_key_unsigned(buffer, "number_of_images", series->frames);
  if (has_user_data) pst_text(buffer, "user_data");
  if (has_element) {
    status = pst_map_with_element(&series->user_data, &series->element, &with_element);
    pst_put_map(buffer, &with_element);
    pst_buffer_free(&with_element.entries);
  } else if (has_user_data) {
    pst_put_map(buffer, &series->user_data);
  }
  pst_bytes(buffer, series->metadata.entries.data, series->metadata.entries.size);
  return status;
}

static void encode_rest(penstock_series* series) {
  pst_buffer* end = &series->session.end;
  pst_buffer* image = &series->image_first;
  pst_bytes(end, self_described, sizeof(self_described));
  pst_head(end, PST_MAP, 3);
  pst_key_text(end, "type", "end");
  put_ids(end, series);
  pst_key_text(image, "type", "image");
  put_ids(image, series);
  pst_text(image, "image_id");
}

int penstock_begin(penstock_series* series) {
  pst_session* session;
  int status;
  if (series == NULL) return PENSTOCK_INVALID;
  session = &series->session;
  if (series->begun) return invalid(series, "the series has begun");
  if (!series->has_network) return pst_fail(session, PENSTOCK_DISCONNECTED, "the system has no network");
  if (session->host[0] == 0 || session->name == NULL || series->type == 0 || series->dimensions == 0)
    return invalid(series, "address, name, type and shape are needed");
  if (series->channels_count == 0 && (status = penstock_add_channel(series, "0")) != PENSTOCK_OK) return status;
  series->date_ns = pst_realtime_ns();
  date_of(series->date_ns, series->date, sizeof(series->date));
  session->hello.size = session->start.size = session->end.size = series->image_first.size = 0;
  name_client(series);
  encode_hello(series, &session->hello);
  status = encode_start(series, &session->start);
  encode_rest(series);
  if (session->hello.failed || session->start.failed || session->end.failed || series->image_first.failed)
    return pst_fail(session, PENSTOCK_NO_MEMORY, "there is no memory left");
  if (status != PENSTOCK_OK || session->start.size > UINT32_MAX)
    return invalid(series, "user_data: penstock is not a map, or is too large");
  status = pst_session_begin(session);
  series->begun = status == PENSTOCK_OK;
  return status;
}

/* The image message. */

static size_t channel_of(const penstock_series* series, const char* channel) {
  size_t i;
  if (channel == NULL) return series->channels_count == 1 ? 0 : series->channels_count;
  for (i = 0; i < series->channels_count; ++i)
    if (strcmp(series->channels[i], channel) == 0) break;
  return i;
}

static uint64_t plain_bytes(const penstock_series* series) {
  uint64_t bytes = pst_type_bytes(series->type);
  size_t i;
  for (i = 0; i < series->dimensions; ++i) {
    if (bytes > UINT64_MAX / 2 / series->shape[i]) return 0;
    bytes *= series->shape[i];
  }
  return bytes;
}

static int check_pixels(penstock_series* series, const penstock_frame* frame) {
  const uint64_t plain = plain_bytes(series);
  uint64_t seen = 0;
  size_t i;
  if (frame->pixels == NULL || frame->pixels_count == 0 || frame->pixels_count > series->channels_count)
    return invalid(series, "a frame has pixels of at least one channel, each once");
  for (i = 0; i < frame->pixels_count; ++i) {
    const penstock_pixels* each = &frame->pixels[i];
    const size_t channel = channel_of(series, each->channel);
    if (channel == series->channels_count)
      return pst_fail(&series->session, PENSTOCK_INVALID, "the series has no channel \"%.80s\"",
                      each->channel == NULL ? "(NULL)" : each->channel);
    if (seen & UINT64_C(1) << channel) return invalid(series, "a frame has pixels of a channel twice");
    seen |= UINT64_C(1) << channel;
    if (each->data == NULL || each->bytes == 0 || each->bytes > INT64_MAX / PST_CHANNELS_MAX)
      return invalid(series, "a frame has no pixels, or too many");
    if (each->encoding < PENSTOCK_PLAIN || each->encoding > PENSTOCK_LZ4)
      return pst_fail(&series->session, PENSTOCK_INVALID, "there is no encoding %d", (int)each->encoding);
    if (each->encoding == PENSTOCK_PLAIN && each->bytes != plain)
      return pst_fail(&series->session, PENSTOCK_INVALID, "a frame has %llu bytes of a channel instead of %llu",
                      (unsigned long long)each->bytes, (unsigned long long)plain);
  }
  return PENSTOCK_OK;
}

static void encode_pixels(const penstock_series* series, const penstock_pixels* pixels, uint64_t offset,
                          pst_buffer* buffer) {
  static const char* const encodings[] = {"", "bslz4", "bszstd", "lz4"};
  size_t i;
  pst_text(buffer, series->channels[channel_of(series, pixels->channel)]);
  pst_head(buffer, PST_TAG, TAG_ARRAY);
  pst_head(buffer, PST_ARRAY, 2);
  pst_head(buffer, PST_ARRAY, series->dimensions);
  for (i = 0; i < series->dimensions; ++i) pst_head(buffer, PST_UNSIGNED, series->shape[i]);
  pst_head(buffer, PST_TAG, pst_type_tag(series->type));
  if (pixels->encoding != PENSTOCK_PLAIN) {
    pst_head(buffer, PST_TAG, TAG_COMPRESSED);
    pst_head(buffer, PST_ARRAY, 3);
    pst_text(buffer, encodings[pixels->encoding]);
    pst_head(buffer, PST_UNSIGNED, pst_type_bytes(series->type));
  }
  pst_head(buffer, PST_ARRAY, 2);
  pst_head(buffer, PST_UNSIGNED, offset);
  pst_head(buffer, PST_UNSIGNED, pixels->bytes);
}

static uint64_t encode_time(pst_buffer* buffer, const char* key, int64_t time_ns) {
  if (time_ns == PENSTOCK_NO_TIME) return 0;
  if (buffer == NULL) return 1;
  pst_text(buffer, key);
  pst_head(buffer, PST_ARRAY, 2);
  pst_head(buffer, PST_UNSIGNED, (uint64_t)time_ns);
  pst_head(buffer, PST_UNSIGNED, SECOND_NS);
  return 1;
}

/* Counts where `buffer` is NULL. */
static uint64_t encode_times(pst_buffer* buffer, const penstock_frame* frame) {
  return encode_time(buffer, "start_time", frame->start_time_ns) +
         encode_time(buffer, "stop_time", frame->stop_time_ns) + encode_time(buffer, "real_time", frame->real_time_ns);
}

static void encode_image(penstock_series* series, const penstock_frame* frame, uint64_t number) {
  pst_buffer* buffer = &series->message;
  const uint64_t times = encode_times(NULL, frame);
  uint64_t offset = 0;
  size_t i;
  buffer->size = 0;
  buffer->failed = 0;
  pst_bytes(buffer, self_described, sizeof(self_described));
  pst_head(buffer, PST_MAP, 5 + (times > 0) + times + (frame->metadata != NULL));
  pst_bytes(buffer, series->image_first.data, series->image_first.size);
  pst_head(buffer, PST_UNSIGNED, number);
  pst_text(buffer, "data");
  pst_head(buffer, PST_MAP, frame->pixels_count);
  for (i = 0; i < frame->pixels_count; ++i) {
    encode_pixels(series, &frame->pixels[i], offset, buffer);
    offset += frame->pixels[i].bytes;
  }
  if (times > 0) pst_key_text(buffer, "series_date", series->date);
  (void)encode_times(buffer, frame);
  if (frame->metadata == NULL) return;
  pst_text(buffer, "user_data");
  pst_put_map(buffer, frame->metadata);
}

static int is_time(int64_t time_ns) { return time_ns >= 0 || time_ns == PENSTOCK_NO_TIME; }

/* Everything up to the moment at which the frame is kept. */
static int take(penstock_series* series, const penstock_frame* frame) {
  pst_session* session = &series->session;
  const uint64_t number = frame->number == PENSTOCK_NEXT ? series->next_number : frame->number;
  uint64_t bytes = 0;
  pst_kept* kept;
  size_t i;
  int status = check_pixels(series, frame);
  if (status != PENSTOCK_OK) return status;
  if (number < series->next_number || number > INT64_MAX)
    return pst_fail(session, PENSTOCK_INVALID, "frame %llu comes where %llu is the next; numbers must rise",
                    (unsigned long long)number, (unsigned long long)series->next_number);
  if (!is_time(frame->start_time_ns) || !is_time(frame->stop_time_ns) || !is_time(frame->real_time_ns))
    return invalid(series, "a time is negative; times are nanoseconds since penstock_date_ns(), or PENSTOCK_NO_TIME");
  status = pst_session_check_open(session);
  for (i = 0; i < frame->pixels_count; ++i) bytes += frame->pixels[i].bytes;
  if (status == PENSTOCK_OK) status = pst_session_make_room(session, bytes, frame->timeout_ms);
  if (status != PENSTOCK_OK) return status;
  encode_image(series, frame, number);
  if (series->message.size > PST_MESSAGE_BYTES_MAX) return invalid(series, "more than 4 MiB of metadata in a frame");
  kept = series->message.failed ? NULL : pst_kept_new(frame, &series->message);
  if (kept == NULL)
    return pst_fail(session, PENSTOCK_NO_MEMORY, "there is no memory left for frame %llu", (unsigned long long)number);
  kept->number = number;
  series->next_number = number + 1;
  ++session->counts[PENSTOCK_COUNT_SENT];
  pst_window_push(&session->window, kept);
  return PENSTOCK_OK;
}

int penstock_send(penstock_series* series, const penstock_frame* frame) {
  int status = PENSTOCK_INVALID;
  if (frame == NULL) return series == NULL ? PENSTOCK_INVALID : invalid(series, "the frame is NULL");
  if (series == NULL) {
    if (frame->struct_size >= sizeof(*frame) && frame->release != NULL) frame->release(frame->release_context);
    return PENSTOCK_INVALID;
  }
  if (frame->struct_size < sizeof(*frame))
    return invalid(series, "struct_size is not set: make the frame with PENSTOCK_FRAME_INIT");
  status = series->begun ? take(series, frame) : invalid(series, "the series has not begun");
  if (status == PENSTOCK_OK) return pst_session_flush(&series->session);
  if (frame->release != NULL) frame->release(frame->release_context);
  return status;
}

int penstock_send_image(penstock_series* series, const void* pixels, uint64_t bytes) {
  penstock_pixels only;
  penstock_frame frame = PENSTOCK_FRAME_INIT;
  memset(&only, 0, sizeof(only));
  only.data = pixels;
  only.bytes = bytes;
  frame.pixels = &only;
  frame.pixels_count = 1;
  return penstock_send(series, &frame);
}

static int not_open(penstock_series* series) {
  if (series == NULL) return PENSTOCK_INVALID;
  if (!series->begun || series->session.over) return invalid(series, "the series is over, or has not begun");
  return PENSTOCK_OK;
}

int penstock_poll(penstock_series* series) {
  const int status = not_open(series);
  return status != PENSTOCK_OK ? status : pst_session_poll(&series->session);
}

int penstock_wait_acknowledged(penstock_series* series, int64_t timeout_ms) {
  const int status = not_open(series);
  return status != PENSTOCK_OK ? status : pst_session_wait(&series->session, timeout_ms);
}

int penstock_end(penstock_series* series) {
  const pst_session* session;
  int status = not_open(series);
  if (status != PENSTOCK_OK) return status;
  session = &series->session;
  status = pst_session_end(&series->session);
  if (status != PENSTOCK_OK || session->counts[PENSTOCK_COUNT_REFUSED] == 0) return status;
  return pst_fail(&series->session, PENSTOCK_FRAMES_REFUSED,
                  "the recorder refused %llu of %llu frames of series \"%.80s\"; the first was frame %llu: %s",
                  (unsigned long long)session->counts[PENSTOCK_COUNT_REFUSED],
                  (unsigned long long)session->counts[PENSTOCK_COUNT_SENT], session->name,
                  (unsigned long long)session->refusals[0].number, session->refusals[0].reason);
}

uint64_t penstock_count(const penstock_series* series, int which) {
  if (series == NULL || which < PENSTOCK_COUNT_SENT || which > PENSTOCK_COUNT_REFUSED) return 0;
  if (which == PENSTOCK_COUNT_WAITING) return series->session.window.count;
  if (which == PENSTOCK_COUNT_WAITING_BYTES) return series->session.window.pixels_bytes;
  return series->session.counts[which];
}

int penstock_refused(const penstock_series* series, size_t index, uint64_t* number, const char** reason) {
  if (series == NULL || number == NULL || reason == NULL || index >= series->session.refusals_count)
    return PENSTOCK_INVALID;
  *number = series->session.refusals[index].number;
  *reason = series->session.refusals[index].reason;
  return PENSTOCK_OK;
}

int64_t penstock_date_ns(const penstock_series* series) { return series == NULL ? 0 : series->date_ns; }
