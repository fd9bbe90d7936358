/* Decompresses chunks of HDF5 files outside HDF5.
 *
 * Threads: any number of them may call it at the same time. Each keeps some scratch memory until it ends. */
#ifndef PENSTOCK_DECODE_H
#define PENSTOCK_DECODE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `pixels` with what the HDF5 filter of `encoding` stored: "bslz4", "bszstd", "lz4", "zstd" or "deflate". Returns
 * 0; 1 if the chunk is corrupt or has another size, and 2 for an encoding that is unknown or NULL. The chunk may be
 * hostile. */
int penstock_decode_chunk(const char* encoding, const void* chunk, size_t chunk_bytes, size_t element_bytes,
                          void* pixels, size_t pixels_bytes);

#ifdef __cplusplus
}
#endif

#endif
