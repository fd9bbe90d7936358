/* As much of CBOR (RFC 8949) as the protocol needs: all that is sent, and maps that come. No I/O. */
#ifndef PENSTOCK_CLIENT_CBOR_H
#define PENSTOCK_CLIENT_CBOR_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. Without memory `failed` is set, and further writes do nothing. */
typedef struct pst_buffer {
  uint8_t* data;
  size_t size;
  size_t capacity;
  int failed;
} pst_buffer;

void pst_buffer_free(pst_buffer* buffer);
void pst_bytes(pst_buffer* buffer, const void* data, size_t size);

enum { PST_UNSIGNED = 0, PST_NEGATIVE = 1, PST_BYTES = 2, PST_TEXT = 3, PST_ARRAY = 4, PST_MAP = 5, PST_TAG = 6 };

void pst_head(pst_buffer* buffer, int major, uint64_t argument);
void pst_text(pst_buffer* buffer, const char* text);
void pst_text_sized(pst_buffer* buffer, const char* text, size_t size);
void pst_key_text(pst_buffer* buffer, const char* key, const char* text);
void pst_key_unsigned(pst_buffer* buffer, const char* key, uint64_t value);
void pst_integer(pst_buffer* buffer, int64_t value);
void pst_number(pst_buffer* buffer, double value);
void pst_boolean(pst_buffer* buffer, int value);

/* Reads from memory that outlives it. */
typedef struct pst_reader {
  const uint8_t* at;
  const uint8_t* end;
} pst_reader;

/* Text that lies in the memory that is read, without a 0 at its end. */
typedef struct pst_view {
  const char* data;
  size_t size;
} pst_view;

int pst_view_is(pst_view view, const char* text);

#define PST_INDEFINITE UINT64_MAX

/* All return 0, or -1 where the bytes are something else; the reader is then of no further use. */
int pst_read_map(pst_reader* reader, uint64_t* entries); /* through the tag of self-described CBOR; or PST_INDEFINITE */
int pst_read_break(pst_reader* reader);                  /* 1 where an indefinite one ends here, and takes it */
int pst_read_text(pst_reader* reader, pst_view* text);   /* of definite length */
int pst_read_text_or_null(pst_reader* reader, pst_view* text);
int pst_read_unsigned(pst_reader* reader, uint64_t* value);
int pst_skip(pst_reader* reader); /* any item, nested at most 16 deep */

#endif
