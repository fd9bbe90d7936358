/* What a handle points to: penstock.c fills it, series.c sends with it. */
#ifndef PENSTOCK_CLIENT_SERIES_H
#define PENSTOCK_CLIENT_SERIES_H

#include "client/map.h"
#include "client/session.h"

enum { PST_CHANNELS_MAX = 64, PST_NAME_BYTES_MAX = 256 };

struct penstock_series {
  pst_session session;
  int begun;
  int has_network;
  /* Until it has begun. */
  char* token;
  char* program;
  int type;
  uint64_t shape[3];
  size_t dimensions;
  uint64_t frames;
  uint64_t series_id;
  char* channels[PST_CHANNELS_MAX];
  size_t channels_count;
  penstock_map metadata;
  penstock_map user_data;
  int has_user_data;
  penstock_map element;
  uint32_t element_rows;
  uint32_t element_columns;
  char client[64]; /* of its hello */
  /* Afterwards. */
  int64_t date_ns;
  char date[64];
  uint64_t next_number;
  pst_buffer image_first; /* of each image message, up to image_id */
  pst_buffer message;
};

#endif
