#include "client/penstock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/series.h"

#define ELEMENT_FIELDS 3u /* grid, number and gap */
#define GAP_PIXELS_MAX 65535u

uint32_t penstock_version(void) { return PENSTOCK_VERSION; }

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)
const char* penstock_version_text(void) {
  return VERSION_TEXT(PENSTOCK_VERSION_MAJOR, PENSTOCK_VERSION_MINOR, PENSTOCK_VERSION_PATCH);
}

const char* penstock_status_text(int status) {
  static const char* const texts[] = {"ok",      "invalid",        "disconnected", "refused", "timeout",
                                      "problem", "frames refused", "no memory",    "protocol"};
  return status >= 0 && status < (int)(sizeof(texts) / sizeof(texts[0])) ? texts[status] : "unknown";
}

penstock_series* penstock_new(void) {
  penstock_series* series = (penstock_series*)calloc(1, sizeof(penstock_series));
  pst_session* session;
  if (series == NULL) return NULL;
  session = &series->session;
  series->has_network = pst_net_begin() == 0;
  series->series_id = 1;
  session->socket = PST_NO_SOCKET;
  session->window.bytes_max = UINT64_C(1) << 30;
  session->window.count_max = 65536;
  session->timeout_ms[PENSTOCK_CONNECT_TIMEOUT] = 10000;
  session->timeout_ms[PENSTOCK_RECONNECT_TIMEOUT] = 60000;
  session->timeout_ms[PENSTOCK_ANSWER_TIMEOUT] = 600000;
  session->timeout_ms[PENSTOCK_CLOSE_TIMEOUT] = 600000;
  session->received = (uint8_t*)malloc(PST_HEADER_BYTES + PST_REPLY_BYTES_MAX);
  session->refusals = (pst_refusal*)calloc(PST_REFUSALS_MAX, sizeof(pst_refusal));
  if (session->received == NULL || session->refusals == NULL) {
    penstock_free(series);
    return NULL;
  }
  return series;
}

void penstock_free(penstock_series* series) {
  pst_session* session;
  size_t i;
  if (series == NULL) return;
  session = &series->session;
  pst_session_abandon(session);
  pst_window_clear(&session->window);
  pst_buffer_free(&session->hello);
  pst_buffer_free(&session->start);
  pst_buffer_free(&session->end);
  free(session->received);
  free(session->refusals);
  free(session->name);
  free(series->token);
  free(series->program);
  for (i = 0; i < series->channels_count; ++i) free(series->channels[i]);
  pst_buffer_free(&series->metadata.entries);
  pst_buffer_free(&series->user_data.entries);
  pst_buffer_free(&series->element.entries);
  pst_buffer_free(&series->image_first);
  pst_buffer_free(&series->message);
  if (series->has_network) pst_net_end();
  free(series);
}

const char* penstock_error(const penstock_series* series) {
  return series == NULL ? "there is no series (NULL)" : series->session.error;
}

const char* penstock_state(const penstock_series* series) { return series == NULL ? "" : series->session.state; }

/* What the series is. */

#define SETTING(condition, ...)                                                                     \
  do {                                                                                              \
    if (series == NULL) return PENSTOCK_INVALID;                                                    \
    if (series->begun) return pst_fail(&series->session, PENSTOCK_INVALID, "the series has begun"); \
    if (!(condition)) return pst_fail(&series->session, PENSTOCK_INVALID, __VA_ARGS__);             \
  } while (0)

static int no_memory(penstock_series* series) {
  return pst_fail(&series->session, PENSTOCK_NO_MEMORY, "there is no memory left");
}

static char* copy_of(const char* text) {
  const size_t size = strlen(text) + 1;
  char* copy = (char*)malloc(size);
  return copy == NULL ? NULL : (char*)memcpy(copy, text, size);
}

static int keep_text(penstock_series* series, char** into, const char* text) {
  char* copy = copy_of(text);
  if (copy == NULL) return no_memory(series);
  free(*into);
  *into = copy;
  return PENSTOCK_OK;
}

int penstock_set_address(penstock_series* series, const char* address) {
  const char* host = address;
  const char* colon;
  char* end = NULL;
  size_t host_bytes;
  long port;
  SETTING(address != NULL, "the address is NULL");
  if (strncmp(host, "tcp://", 6) == 0) host += 6;
  colon = strrchr(host, ':');
  host_bytes = colon == NULL ? 0 : (size_t)(colon - host);
  port = colon == NULL || colon[1] < '0' || colon[1] > '9' ? 0 : strtol(colon + 1, &end, 10);
  if (host_bytes == 0 || host_bytes >= sizeof(series->session.host) || port < 1 || port > 65535 || *end != 0)
    return pst_fail(&series->session, PENSTOCK_INVALID, "the address \"%.200s\" is not host:port", address);
  if (host_bytes > 2 && host[0] == '[' && host[host_bytes - 1] == ']') {
    ++host;
    host_bytes -= 2;
  }
  memcpy(series->session.host, host, host_bytes);
  series->session.host[host_bytes] = 0;
  (void)snprintf(series->session.port, sizeof(series->session.port), "%ld", port);
  return PENSTOCK_OK;
}

int penstock_set_name(penstock_series* series, const char* name) {
  SETTING(name != NULL && name[0] != 0 && strlen(name) <= PST_NAME_BYTES_MAX, "a name has 1 to 256 bytes");
  return keep_text(series, &series->session.name, name);
}

int penstock_set_type(penstock_series* series, int type) {
  SETTING(pst_type_bytes(type) > 0, "the type %d is none of penstock_type", type);
  series->type = type;
  return PENSTOCK_OK;
}

int penstock_set_shape(penstock_series* series, const uint64_t* shape, size_t dimensions) {
  size_t i;
  SETTING(shape != NULL && (dimensions == 2 || dimensions == 3), "a frame has 2 or 3 dimensions");
  for (i = 0; i < dimensions; ++i)
    SETTING(shape[i] > 0 && shape[i] <= UINT32_MAX, "shape[%d] is %llu", (int)i, (unsigned long long)shape[i]);
  memcpy(series->shape, shape, dimensions * sizeof(shape[0]));
  series->dimensions = dimensions;
  return PENSTOCK_OK;
}

int penstock_set_frames(penstock_series* series, uint64_t frames) {
  SETTING(1, " ");
  series->frames = frames;
  return PENSTOCK_OK;
}

int penstock_add_channel(penstock_series* series, const char* channel) {
  size_t i;
  SETTING(channel != NULL && channel[0] != 0 && strlen(channel) <= PST_NAME_BYTES_MAX,
          "a channel's name has 1 to 256 bytes");
  SETTING(series->channels_count < PST_CHANNELS_MAX, "more than %d channels", PST_CHANNELS_MAX);
  for (i = 0; i < series->channels_count; ++i)
    SETTING(strcmp(series->channels[i], channel) != 0, "the channel \"%.80s\" is there already", channel);
  series->channels[series->channels_count] = copy_of(channel);
  if (series->channels[series->channels_count] == NULL) return no_memory(series);
  ++series->channels_count;
  return PENSTOCK_OK;
}

int penstock_set_series_id(penstock_series* series, uint64_t series_id) {
  SETTING(1, " ");
  series->series_id = series_id;
  return PENSTOCK_OK;
}

int penstock_set_token(penstock_series* series, const char* token) {
  SETTING(token != NULL, "the token is NULL");
  return keep_text(series, &series->token, token);
}

int penstock_set_program(penstock_series* series, const char* name) {
  SETTING(name != NULL && strlen(name) <= PST_NAME_BYTES_MAX, "a program's name has at most 256 bytes");
  return keep_text(series, &series->program, name);
}

static int keep_map(penstock_series* series, penstock_map* into, const penstock_map* from) {
  pst_buffer copy;
  memset(&copy, 0, sizeof(copy));
  pst_bytes(&copy, from->entries.data, from->entries.size);
  if (copy.failed) return no_memory(series);
  pst_buffer_free(&into->entries);
  into->entries = copy;
  into->count = from->count;
  return PENSTOCK_OK;
}

int penstock_set_metadata(penstock_series* series, const penstock_map* metadata) {
  static const char* const own[] = {
      "type",         "series_id",    "series_unique_id", "channels", "image_dtype", "image_size_x",
      "image_size_y", "image_size_z", "number_of_images", "arm_date", "user_data"};
  size_t i;
  SETTING(metadata != NULL, "the metadata are NULL");
  for (i = 0; i < sizeof(own) / sizeof(own[0]); ++i)
    SETTING(!pst_map_has(metadata, own[i], NULL), "metadata sets %s, which has a separate call of the series", own[i]);
  return keep_map(series, &series->metadata, metadata);
}

int penstock_set_user_data(penstock_series* series, const penstock_map* user_data) {
  SETTING(user_data != NULL, "the user data are NULL");
  series->has_user_data = 1;
  return keep_map(series, &series->user_data, user_data);
}

int penstock_set_element(penstock_series* series, uint32_t rows, uint32_t columns, uint32_t number) {
  penstock_map* element;
  SETTING(rows > 0 && columns > 0 && number < (uint64_t)rows * columns, "there is no element %u in a grid of %u x %u",
          (unsigned)number, (unsigned)rows, (unsigned)columns);
  element = &series->element;
  penstock_map_clear(element);
  pst_text(&element->entries, "grid");
  pst_head(&element->entries, PST_ARRAY, 2);
  pst_head(&element->entries, PST_UNSIGNED, rows);
  pst_head(&element->entries, PST_UNSIGNED, columns);
  pst_key_unsigned(&element->entries, "number", number);
  element->count = 2;
  series->element_rows = rows;
  series->element_columns = columns;
  return element->entries.failed ? no_memory(series) : PENSTOCK_OK;
}

/* PENSTOCK_INVALID where the gaps are not as many as there are neighbours, or too wide. */
static int put_gaps(pst_buffer* into, const char* key, uint32_t extent, const uint32_t* gaps, size_t count) {
  size_t i;
  if (count != 0 && (gaps == NULL || count != extent - 1)) return PENSTOCK_INVALID;
  for (i = 0; i < count; ++i)
    if (gaps[i] > GAP_PIXELS_MAX) return PENSTOCK_INVALID;
  pst_text(into, key);
  if (count == 0) pst_head(into, PST_UNSIGNED, 0);
  if (count != 0) pst_head(into, PST_ARRAY, count);
  for (i = 0; i < count; ++i) pst_head(into, PST_UNSIGNED, gaps[i]);
  return PENSTOCK_OK;
}

int penstock_set_element_gaps(penstock_series* series, const uint32_t* between_rows, size_t row_gaps,
                              const uint32_t* between_columns, size_t column_gaps) {
  pst_buffer gap;
  int status;
  SETTING(series->element.count > 0, "gaps are set after the element and its grid");
  SETTING(series->element.count < ELEMENT_FIELDS, "the gaps are set already");
  memset(&gap, 0, sizeof(gap));
  pst_text(&gap, "gap");
  pst_head(&gap, PST_MAP, 2);
  status = put_gaps(&gap, "rows", series->element_rows, between_rows, row_gaps);
  if (status == PENSTOCK_OK) status = put_gaps(&gap, "columns", series->element_columns, between_columns, column_gaps);
  if (status == PENSTOCK_OK) {
    pst_bytes(&series->element.entries, gap.data, gap.size);
    series->element.count = ELEMENT_FIELDS;
  }
  if (gap.failed || series->element.entries.failed) status = PENSTOCK_NO_MEMORY;
  pst_buffer_free(&gap);
  if (status == PENSTOCK_NO_MEMORY) return no_memory(series);
  SETTING(
      status == PENSTOCK_OK,
      "%u gaps between rows and %u between columns, in a grid of %u x %u; one fewer than rows, and than columns, are "
      "expected, of at most %u pixels",
      (unsigned)row_gaps, (unsigned)column_gaps, (unsigned)series->element_rows, (unsigned)series->element_columns,
      GAP_PIXELS_MAX);
  return PENSTOCK_OK;
}

int penstock_set_resume(penstock_series* series, int resume) {
  SETTING(1, " ");
  series->session.resume = resume != 0;
  return PENSTOCK_OK;
}

int penstock_set_resend(penstock_series* series, uint64_t bytes, uint64_t frames) {
  SETTING(bytes > 0 && frames > 0, "at least one byte and one frame are kept for sending again");
  series->session.window.bytes_max = bytes;
  series->session.window.count_max = frames;
  return PENSTOCK_OK;
}

int penstock_set_timeout(penstock_series* series, int which, int64_t milliseconds) {
  SETTING(which >= PENSTOCK_CONNECT_TIMEOUT && which <= PENSTOCK_CLOSE_TIMEOUT, "there is no timeout %d", which);
  SETTING(milliseconds >= 0 && milliseconds <= INT64_C(1) << 40, "a timeout of %lld ms", (long long)milliseconds);
  series->session.timeout_ms[which] = milliseconds;
  return PENSTOCK_OK;
}
