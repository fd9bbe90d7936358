#include "client/cbor.h"

#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 16, SIMPLE = 7, INDEFINITE = 31, BREAK = 0xff, SELF_DESCRIBED = 55799 };

void pst_buffer_free(pst_buffer* buffer) {
  free(buffer->data);
  memset(buffer, 0, sizeof(*buffer));
}

static uint8_t* room(pst_buffer* buffer, size_t size) {
  if (buffer->failed) return NULL;
  if (buffer->capacity - buffer->size < size) {
    size_t wanted = buffer->capacity < 256 ? 256 : buffer->capacity;
    uint8_t* grown = NULL;
    while (wanted - buffer->size < size && wanted <= SIZE_MAX / 2) wanted *= 2;
    if (wanted - buffer->size >= size) grown = (uint8_t*)realloc(buffer->data, wanted);
    if (grown == NULL) {
      buffer->failed = 1;
      return NULL;
    }
    buffer->data = grown;
    buffer->capacity = wanted;
  }
  buffer->size += size;
  return buffer->data + buffer->size - size;
}

void pst_bytes(pst_buffer* buffer, const void* data, size_t size) {
  uint8_t* into = size > 0 ? room(buffer, size) : NULL;
  if (into != NULL) memcpy(into, data, size);
}

static void big_endian(uint8_t* into, uint64_t value, int size) {
  int i;
  for (i = 0; i < size; ++i) into[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

void pst_head(pst_buffer* buffer, int major, uint64_t argument) {
  uint8_t bytes[9];
  int size = 0;
  if (argument >= 24) size = argument <= UINT8_MAX ? 1 : argument <= UINT16_MAX ? 2 : argument <= UINT32_MAX ? 4 : 8;
  bytes[0] = (uint8_t)(major << 5);
  if (size == 0) bytes[0] |= (uint8_t)argument;
  if (size > 0) bytes[0] |= (uint8_t)(size == 1 ? 24 : size == 2 ? 25 : size == 4 ? 26 : 27);
  big_endian(bytes + 1, argument, size);
  pst_bytes(buffer, bytes, (size_t)size + 1);
}

void pst_text_sized(pst_buffer* buffer, const char* text, size_t size) {
  pst_head(buffer, PST_TEXT, size);
  pst_bytes(buffer, text, size);
}

void pst_text(pst_buffer* buffer, const char* text) { pst_text_sized(buffer, text, strlen(text)); }

void pst_key_text(pst_buffer* buffer, const char* key, const char* text) {
  pst_text(buffer, key);
  pst_text(buffer, text);
}

void pst_key_unsigned(pst_buffer* buffer, const char* key, uint64_t value) {
  pst_text(buffer, key);
  pst_head(buffer, PST_UNSIGNED, value);
}

void pst_integer(pst_buffer* buffer, int64_t value) {
  if (value >= 0)
    pst_head(buffer, PST_UNSIGNED, (uint64_t)value);
  else
    pst_head(buffer, PST_NEGATIVE, (uint64_t)(-(value + 1)));
}

void pst_number(pst_buffer* buffer, double value) {
  uint8_t bytes[9];
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  bytes[0] = (SIMPLE << 5) | 27;
  big_endian(bytes + 1, bits, 8);
  pst_bytes(buffer, bytes, sizeof(bytes));
}

void pst_boolean(pst_buffer* buffer, int value) {
  const uint8_t byte = (uint8_t)((SIMPLE << 5) | (value ? 21 : 20));
  pst_bytes(buffer, &byte, 1);
}

int pst_view_is(pst_view view, const char* text) {
  return view.size == strlen(text) && memcmp(view.data, text, view.size) == 0;
}

/* Major type and argument; `info` is the low five bits of the first byte. */
static int read_head(pst_reader* reader, int* major, int* info, uint64_t* argument) {
  int size, i;
  if (reader->at == reader->end) return -1;
  *major = *reader->at >> 5;
  *info = *reader->at & 31;
  ++reader->at;
  *argument = (uint64_t)*info;
  if (*info < 24 || *info == INDEFINITE) return 0;
  if (*info > 27) return -1;
  size = 1 << (*info - 24);
  if (reader->end - reader->at < size) return -1;
  *argument = 0;
  for (i = 0; i < size; ++i) *argument = *argument << 8 | reader->at[i];
  reader->at += size;
  return 0;
}

static int at_major(const pst_reader* reader, int major) {
  return reader->at != reader->end && *reader->at >> 5 == major;
}

int pst_read_map(pst_reader* reader, uint64_t* entries) {
  int major, info;
  if (read_head(reader, &major, &info, entries) != 0) return -1;
  if (major == PST_TAG && *entries == SELF_DESCRIBED && info != INDEFINITE)
    if (read_head(reader, &major, &info, entries) != 0) return -1;
  if (major != PST_MAP) return -1;
  if (info == INDEFINITE) *entries = PST_INDEFINITE;
  return 0;
}

int pst_read_break(pst_reader* reader) {
  if (reader->at == reader->end || *reader->at != BREAK) return 0;
  ++reader->at;
  return 1;
}

int pst_read_text(pst_reader* reader, pst_view* text) {
  int major, info;
  uint64_t size;
  if (read_head(reader, &major, &info, &size) != 0 || major != PST_TEXT || info == INDEFINITE) return -1;
  if (size > (uint64_t)(reader->end - reader->at)) return -1;
  text->data = (const char*)reader->at;
  text->size = (size_t)size;
  reader->at += size;
  return 0;
}

int pst_read_text_or_null(pst_reader* reader, pst_view* text) {
  if (reader->at != reader->end && *reader->at == ((SIMPLE << 5) | 22)) {
    ++reader->at;
    text->data = "";
    text->size = 0;
    return 0;
  }
  return pst_read_text(reader, text);
}

int pst_read_unsigned(pst_reader* reader, uint64_t* value) {
  int major, info;
  if (!at_major(reader, PST_UNSIGNED) || read_head(reader, &major, &info, value) != 0) return -1;
  return info == INDEFINITE ? -1 : 0;
}

static int skip(pst_reader* reader, int depth);

/* Items of an array, a map or a string of indefinite length, up to the break. */
static int skip_indefinite(pst_reader* reader, int depth) {
  while (!pst_read_break(reader))
    if (skip(reader, depth) != 0) return -1;
  return 0;
}

static int skip(pst_reader* reader, int depth) {
  int major, info;
  uint64_t argument;
  if (depth == 0 || read_head(reader, &major, &info, &argument) != 0) return -1;
  if (info == INDEFINITE) return major < PST_BYTES || major > PST_MAP ? -1 : skip_indefinite(reader, depth - 1);
  switch (major) {
    case PST_BYTES:
    case PST_TEXT:
      if (argument > (uint64_t)(reader->end - reader->at)) return -1;
      reader->at += argument;
      return 0;
    case PST_TAG: return skip(reader, depth - 1);
    case PST_ARRAY:
    case PST_MAP:
      /* Each item has a byte at least. */
      if (argument > (uint64_t)(reader->end - reader->at)) return -1;
      for (argument *= major == PST_MAP ? 2 : 1; argument > 0; --argument)
        if (skip(reader, depth - 1) != 0) return -1;
      return 0;
    default: return 0;
  }
}

int pst_skip(pst_reader* reader) { return skip(reader, NESTING_MAX); }
