#include "client/map.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_ARRAY = 40, DIMENSIONS_MAX = 8, KEY_BYTES_MAX = 256 };

static const struct {
  const char* name;
  size_t bytes;
  uint64_t tag; /* RFC 8746, little-endian */
} types[] = {{"", 0, 0},        {"uint8", 1, 64},   {"uint16", 2, 69}, {"uint32", 4, 70},
             {"uint64", 8, 71}, {"int8", 1, 72},    {"int16", 2, 77},  {"int32", 4, 78},
             {"int64", 8, 79},  {"float32", 4, 85}, {"float64", 8, 86}};

static int known(int type) { return type > 0 && type < (int)(sizeof(types) / sizeof(types[0])); }
size_t pst_type_bytes(int type) { return known(type) ? types[type].bytes : 0; }
uint64_t pst_type_tag(int type) { return known(type) ? types[type].tag : 0; }
const char* pst_type_name(int type) { return known(type) ? types[type].name : ""; }

penstock_map* penstock_map_new(void) { return (penstock_map*)calloc(1, sizeof(penstock_map)); }

void penstock_map_free(penstock_map* map) {
  if (map == NULL) return;
  pst_buffer_free(&map->entries);
  free(map);
}

void penstock_map_clear(penstock_map* map) {
  if (map == NULL) return;
  map->entries.size = 0;
  map->entries.failed = 0;
  map->count = 0;
}

static int begin(penstock_map* map, const char* key) {
  if (map == NULL || key == NULL || key[0] == 0 || strlen(key) > KEY_BYTES_MAX) return PENSTOCK_INVALID;
  if (pst_map_has(map, key, NULL)) return PENSTOCK_INVALID;
  return PENSTOCK_OK;
}

/* Either the whole entry is there, or nothing of it. */
static int end(penstock_map* map, size_t size_before) {
  if (!map->entries.failed) {
    ++map->count;
    return PENSTOCK_OK;
  }
  map->entries.failed = 0;
  map->entries.size = size_before;
  return PENSTOCK_NO_MEMORY;
}

#define PUT(condition, write)                                    \
  do {                                                           \
    size_t size_before;                                          \
    if (!(condition)) return PENSTOCK_INVALID;                   \
    if (begin(map, key) != PENSTOCK_OK) return PENSTOCK_INVALID; \
    size_before = map->entries.size;                             \
    pst_text(&map->entries, key);                                \
    write;                                                       \
    return end(map, size_before);                                \
  } while (0)

int penstock_map_text(penstock_map* map, const char* key, const char* value) {
  PUT(value != NULL, pst_text(&map->entries, value));
}
int penstock_map_number(penstock_map* map, const char* key, double value) { PUT(1, pst_number(&map->entries, value)); }
int penstock_map_integer(penstock_map* map, const char* key, int64_t value) {
  PUT(1, pst_integer(&map->entries, value));
}
int penstock_map_unsigned(penstock_map* map, const char* key, uint64_t value) {
  PUT(1, pst_head(&map->entries, PST_UNSIGNED, value));
}
int penstock_map_boolean(penstock_map* map, const char* key, int value) { PUT(1, pst_boolean(&map->entries, value)); }

static void put_numbers(pst_buffer* buffer, const double* values, size_t count) {
  size_t i;
  pst_head(buffer, PST_ARRAY, count);
  for (i = 0; i < count; ++i) pst_number(buffer, values[i]);
}
int penstock_map_numbers(penstock_map* map, const char* key, const double* values, size_t count) {
  PUT(values != NULL || count == 0, put_numbers(&map->entries, values, count));
}

static void put_texts(pst_buffer* buffer, const char* const* values, size_t count) {
  size_t i;
  pst_head(buffer, PST_ARRAY, count);
  for (i = 0; i < count; ++i) pst_text(buffer, values[i]);
}
int penstock_map_texts(penstock_map* map, const char* key, const char* const* values, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i)
    if (values == NULL || values[i] == NULL) return PENSTOCK_INVALID;
  PUT(1, put_texts(&map->entries, values, count));
}

void pst_put_map(pst_buffer* buffer, const penstock_map* map) {
  pst_head(buffer, PST_MAP, map->count);
  pst_bytes(buffer, map->entries.data, map->entries.size);
}
int penstock_map_map(penstock_map* map, const char* key, const penstock_map* value) {
  PUT(value != NULL && value != map, pst_put_map(&map->entries, value));
}

static void put_maps(pst_buffer* buffer, const penstock_map* const* values, size_t count) {
  size_t i;
  pst_head(buffer, PST_ARRAY, count);
  for (i = 0; i < count; ++i) pst_put_map(buffer, values[i]);
}
int penstock_map_maps(penstock_map* map, const char* key, const penstock_map* const* values, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i)
    if (values == NULL || values[i] == NULL || values[i] == map) return PENSTOCK_INVALID;
  PUT(1, put_maps(&map->entries, values, count));
}

static void put_array(pst_buffer* buffer, int type, const uint64_t* shape, size_t dimensions, const void* elements,
                      size_t bytes) {
  size_t i;
  if (dimensions > 1) {
    pst_head(buffer, PST_TAG, TAG_ARRAY);
    pst_head(buffer, PST_ARRAY, 2);
    pst_head(buffer, PST_ARRAY, dimensions);
    for (i = 0; i < dimensions; ++i) pst_head(buffer, PST_UNSIGNED, shape[i]);
  }
  pst_head(buffer, PST_TAG, pst_type_tag(type));
  pst_head(buffer, PST_BYTES, bytes);
  pst_bytes(buffer, elements, bytes);
}
int penstock_map_array(penstock_map* map, const char* key, int type, const uint64_t* shape, size_t dimensions,
                       const void* elements) {
  size_t bytes = pst_type_bytes(type);
  size_t i;
  if (shape == NULL || elements == NULL || bytes == 0 || dimensions < 1 || dimensions > DIMENSIONS_MAX)
    return PENSTOCK_INVALID;
  for (i = 0; i < dimensions; ++i) {
    if (shape[i] == 0 || shape[i] > SIZE_MAX / 2 / bytes) return PENSTOCK_INVALID;
    bytes *= (size_t)shape[i];
  }
  PUT(1, put_array(&map->entries, type, shape, dimensions, elements, bytes));
}

int pst_map_has(const penstock_map* map, const char* key, pst_reader* value) {
  pst_reader reader;
  pst_view each;
  if (map->count == 0) return 0;
  reader.at = map->entries.data;
  reader.end = map->entries.data + map->entries.size;
  while (reader.at != reader.end) {
    if (pst_read_text(&reader, &each) != 0) return 0;
    if (pst_view_is(each, key)) {
      if (value != NULL) *value = reader;
      return 1;
    }
    if (pst_skip(&reader) != 0) return 0;
  }
  return 0;
}

/* Every entry of `from` but that of `key`. */
static void put_others(const penstock_map* from, const char* key, penstock_map* into) {
  pst_reader reader;
  pst_view each;
  if (from->count == 0) return;
  reader.at = from->entries.data;
  reader.end = from->entries.data + from->entries.size;
  while (reader.at != reader.end) {
    const uint8_t* begun = reader.at;
    if (pst_read_text(&reader, &each) != 0 || pst_skip(&reader) != 0) return;
    if (pst_view_is(each, key)) continue;
    pst_bytes(&into->entries, begun, (size_t)(reader.at - begun));
    ++into->count;
  }
}

int pst_map_with_element(const penstock_map* from, const penstock_map* element, penstock_map* into) {
  pst_reader value;
  const uint8_t* inner = NULL;
  size_t inner_bytes = 0;
  uint64_t entries = 0;
  put_others(from, "penstock", into);
  if (pst_map_has(from, "penstock", &value)) {
    pst_reader whole = value;
    if (pst_read_map(&value, &entries) != 0 || pst_skip(&whole) != 0) return PENSTOCK_INVALID;
    inner = value.at;
    inner_bytes = (size_t)(whole.at - inner);
  }
  pst_text(&into->entries, "penstock");
  pst_head(&into->entries, PST_MAP, entries + 1);
  pst_bytes(&into->entries, inner, inner_bytes);
  pst_text(&into->entries, "element");
  pst_put_map(&into->entries, element);
  ++into->count;
  return into->entries.failed ? PENSTOCK_NO_MEMORY : PENSTOCK_OK;
}
