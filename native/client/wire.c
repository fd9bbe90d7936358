#include "client/wire.h"

#include <string.h>

static const uint8_t magic[] = {'P', 'N', 'S', 'T'};

/* Of four bits at a time: messages are short, and pixels are not summed. Polynomial 0x82f63b78, reflected. */
static const uint32_t steps[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                   0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t pst_crc32c(const void* data, size_t size) {
  const uint8_t* at = (const uint8_t*)data;
  uint32_t crc = 0xffffffffu;
  for (; size > 0; --size) {
    crc ^= *at++;
    crc = crc >> 4 ^ steps[crc & 15];
    crc = crc >> 4 ^ steps[crc & 15];
  }
  return crc ^ 0xffffffffu;
}

static void put(uint8_t* into, uint64_t value, int bytes) {
  int i;
  for (i = 0; i < bytes; ++i) into[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t* from, int bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | from[bytes];
  return value;
}

void pst_encode_header(const pst_header* header, uint8_t into[PST_HEADER_BYTES]) {
  memset(into, 0, PST_HEADER_BYTES);
  memcpy(into, magic, sizeof(magic));
  put(into + 4, 1, 2);
  put(into + 6, (uint64_t)header->kind, 2);
  put(into + 8, header->flags, 4);
  put(into + 12, header->message_bytes, 4);
  put(into + 16, header->pixels_bytes, 8);
  put(into + 24, header->sequence, 8);
  put(into + 32, header->message_crc, 4);
  put(into + 60, pst_crc32c(into, 60), 4);
}

int pst_decode_header(const uint8_t from[PST_HEADER_BYTES], pst_header* header, const char** why) {
  *why = "its answer is not a message of Penstock";
  if (memcmp(from, magic, sizeof(magic)) != 0 || get(from + 60, 4) != pst_crc32c(from, 60)) return -1;
  header->kind = (int)get(from + 6, 2);
  header->flags = (uint32_t)get(from + 8, 4);
  header->message_bytes = (uint32_t)get(from + 12, 4);
  header->pixels_bytes = get(from + 16, 8);
  header->sequence = get(from + 24, 8);
  header->message_crc = (uint32_t)get(from + 32, 4);
  *why = "its answer is of another version";
  if (get(from + 4, 2) != 1 || header->kind < PST_HELLO || header->kind > PST_BYE) return -1;
  *why = "it announces an answer that is too large";
  return header->message_bytes > PST_REPLY_BYTES_MAX || header->pixels_bytes > 0 ? -1 : 0;
}

static int read_field(pst_reader* reader, pst_view key, pst_reply* reply) {
  if (pst_view_is(key, "series_unique_id")) return pst_read_text(reader, &reply->series);
  if (pst_view_is(key, "code")) return pst_read_text(reader, &reply->code);
  if (pst_view_is(key, "message") && reply->kind == PST_ERROR) return pst_read_text(reader, &reply->text);
  if (pst_view_is(key, "problem") && reply->kind == PST_CLOSED) return pst_read_text_or_null(reader, &reply->text);
  if (pst_view_is(key, "ended_by")) return pst_read_text(reader, &reply->ended_by);
  if (pst_view_is(key, "safe_below")) return pst_read_unsigned(reader, &reply->safe_below);
  if (pst_view_is(key, "sequence")) return pst_read_unsigned(reader, &reply->sequence);
  return pst_skip(reader);
}

int pst_decode_reply(const pst_header* header, const uint8_t* message, pst_reply* reply, const char** why) {
  pst_reader reader;
  uint64_t entries;
  pst_view key;
  memset(reply, 0, sizeof(*reply));
  reply->kind = header->kind;
  reply->series.data = reply->code.data = reply->text.data = reply->ended_by.data = "";
  *why = "the checksum of its answer is wrong";
  if (pst_crc32c(message, header->message_bytes) != header->message_crc) return -1;
  reader.at = message;
  reader.end = message + header->message_bytes;
  *why = "its answer is not a map in CBOR, or has a field of another type";
  if (pst_read_map(&reader, &entries) != 0) return -1;
  for (; entries > 0; --entries) {
    if (entries > PST_INDEFINITE / 2) {
      if (pst_read_break(&reader)) break;
      entries = PST_INDEFINITE;
    }
    if (pst_read_text(&reader, &key) != 0 || read_field(&reader, key, reply) != 0) return -1;
  }
  return 0;
}
