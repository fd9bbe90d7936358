/* Headers and replies of docs/reference/tcp.md as bytes. No I/O. */
#ifndef PENSTOCK_CLIENT_WIRE_H
#define PENSTOCK_CLIENT_WIRE_H

#include "client/cbor.h"

enum { PST_HEADER_BYTES = 64, PST_REPLY_BYTES_MAX = 1 << 20, PST_MESSAGE_BYTES_MAX = 4 << 20, PST_RESUME = 1 };

enum pst_kind {
  PST_HELLO = 1,
  PST_START = 2,
  PST_IMAGE = 3,
  PST_END = 4,
  PST_ACK = 5,
  PST_ERROR = 6,
  PST_CLOSED = 7,
  PST_BYE = 8
};

typedef struct pst_reply {
  int kind;
  pst_view series;
  pst_view code;
  pst_view text;     /* of an error its message, of closed the problem */
  pst_view ended_by; /* of closed: "message", "stop", "failure", …; empty: not told */
  uint64_t safe_below;
  uint64_t sequence;
} pst_reply;

uint32_t pst_crc32c(const void* data, size_t size);

typedef struct pst_header {
  int kind;
  uint32_t flags;
  uint32_t message_bytes;
  uint64_t pixels_bytes;
  uint64_t sequence;
  uint32_t message_crc;
} pst_header;

void pst_encode_header(const pst_header* header, uint8_t into[PST_HEADER_BYTES]);
/* 0, or -1 with a reason for people: what a recorder says is small and has no pixels. */
int pst_decode_header(const uint8_t from[PST_HEADER_BYTES], pst_header* header, const char** why);
/* The same of the message behind a header. The views of `reply` lie in `message`. */
int pst_decode_reply(const pst_header* header, const uint8_t* message, pst_reply* reply, const char** why);

#endif
