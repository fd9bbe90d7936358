/* Sends series of frames to a Penstock recorder, with acknowledgements; what is lost on the way is sent again.
 *
 * This header is the whole interface, C99 and C++, POSIX and Windows. It needs nothing but libc and a socket. The pages
 * docs/how-to/develop/send-from-c.md and docs/reference/client-c.md explain it.
 *
 * Threads: a series and a map belong to one thread at a time; different ones are independent. The library starts no
 * thread, holds no global state, and reads acknowledgements during its calls.
 *
 * Results: functions that return int return PENSTOCK_OK, which is 0, or another penstock_status; penstock_error() has
 * the words. Strings are UTF-8, end with 0, and are copied.
 *
 * ABI: handles are opaque, structures begin with their size or never grow, numbers of enumerations never change. A
 * program runs with any later library of the same major version.
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0
/* Comparable: 10000 * major + 100 * minor + patch. */
#define PENSTOCK_VERSION (10000 * PENSTOCK_VERSION_MAJOR + 100 * PENSTOCK_VERSION_MINOR + PENSTOCK_VERSION_PATCH)

#if defined(_WIN32) && !defined(PENSTOCK_STATIC)
#ifdef PENSTOCK_BUILD
#define PENSTOCK_API __declspec(dllexport)
#else
#define PENSTOCK_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define PENSTOCK_API __attribute__((visibility("default")))
#else
#define PENSTOCK_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of the library that runs, as PENSTOCK_VERSION, and as "0.1.0". */
PENSTOCK_API uint32_t penstock_version(void);
PENSTOCK_API const char* penstock_version_text(void);

enum penstock_status {
  PENSTOCK_OK = 0,
  PENSTOCK_INVALID = 1,        /* an argument is wrong, or the call comes at the wrong time; nothing was sent */
  PENSTOCK_DISCONNECTED = 2,   /* no connection for connect_timeout or reconnect_timeout */
  PENSTOCK_REFUSED = 3,        /* the recorder will not have the connection or the series, and would not later */
  PENSTOCK_TIMEOUT = 4,        /* a wait that the caller bounded is over; the series goes on */
  PENSTOCK_PROBLEM = 5,        /* the recorder closed the series with a problem, or before all was acknowledged */
  PENSTOCK_FRAMES_REFUSED = 6, /* the file is complete but for frames that the recorder refused */
  PENSTOCK_NO_MEMORY = 7,
  PENSTOCK_PROTOCOL = 8 /* the other end is no recorder, of another version, or acknowledges what was not sent */
};
/* "timeout", and so on. */
PENSTOCK_API const char* penstock_status_text(int status);

enum penstock_type {
  PENSTOCK_UINT8 = 1,
  PENSTOCK_UINT16 = 2,
  PENSTOCK_UINT32 = 3,
  PENSTOCK_UINT64 = 4,
  PENSTOCK_INT8 = 5,
  PENSTOCK_INT16 = 6,
  PENSTOCK_INT32 = 7,
  PENSTOCK_INT64 = 8,
  PENSTOCK_FLOAT32 = 9,
  PENSTOCK_FLOAT64 = 10
};

/* A map from text to values: metadata of the series or of a frame. Each key once. */
typedef struct penstock_map penstock_map;

/* NULL without memory. */
PENSTOCK_API penstock_map* penstock_map_new(void);
PENSTOCK_API void penstock_map_free(penstock_map* map);
/* Empty again, with its memory. */
PENSTOCK_API void penstock_map_clear(penstock_map* map);
PENSTOCK_API int penstock_map_text(penstock_map* map, const char* key, const char* value);
PENSTOCK_API int penstock_map_number(penstock_map* map, const char* key, double value);
PENSTOCK_API int penstock_map_integer(penstock_map* map, const char* key, int64_t value);
PENSTOCK_API int penstock_map_unsigned(penstock_map* map, const char* key, uint64_t value);
PENSTOCK_API int penstock_map_boolean(penstock_map* map, const char* key, int value);
PENSTOCK_API int penstock_map_numbers(penstock_map* map, const char* key, const double* values, size_t count);
PENSTOCK_API int penstock_map_texts(penstock_map* map, const char* key, const char* const* values, size_t count);
/* A map within the map; `value` is copied. */
PENSTOCK_API int penstock_map_map(penstock_map* map, const char* key, const penstock_map* value);
/* `count` maps, copied. */
PENSTOCK_API int penstock_map_maps(penstock_map* map, const char* key, const penstock_map* const* values, size_t count);
/* An array of the start message, such as a mask; the slowest dimension first. Its elements are in the machine's order,
 * which is little-endian. */
PENSTOCK_API int penstock_map_array(penstock_map* map, const char* key, int type, const uint64_t* shape,
                                    size_t dimensions, const void* elements);

/* A series: first what it is, then penstock_begin(), frames, and penstock_end(). */
typedef struct penstock_series penstock_series;

/* NULL without memory. */
PENSTOCK_API penstock_series* penstock_new(void);
/* Cuts the connection of a series that has not ended: it stays open at the recorder for who resumes it. */
PENSTOCK_API void penstock_free(penstock_series* series);
/* Words on the last call that did not return PENSTOCK_OK; valid until the next call. Never NULL. */
PENSTOCK_API const char* penstock_error(const penstock_series* series);

/* What keeps the recorder from taking frames, in its own words ("storage full: waiting; ..."); empty if nothing does.
 * Valid until the next call. Never NULL. */
PENSTOCK_API const char* penstock_state(const penstock_series* series);

/* Before penstock_begin(). Required: address, name, type, shape. */
PENSTOCK_API int penstock_set_address(penstock_series* series, const char* address); /* host:port */
PENSTOCK_API int penstock_set_name(penstock_series* series, const char* name);       /* 1 to 256 bytes */
PENSTOCK_API int penstock_set_type(penstock_series* series, int type);
/* Of a frame of one channel: rows, columns; or planes, rows, columns. */
PENSTOCK_API int penstock_set_shape(penstock_series* series, const uint64_t* shape, size_t dimensions);
PENSTOCK_API int penstock_set_frames(penstock_series* series, uint64_t frames);       /* 0, the default: open end */
PENSTOCK_API int penstock_add_channel(penstock_series* series, const char* channel);  /* without any: "0" */
PENSTOCK_API int penstock_set_series_id(penstock_series* series, uint64_t series_id); /* 1 */
PENSTOCK_API int penstock_set_token(penstock_series* series, const char* token);
PENSTOCK_API int penstock_set_program(penstock_series* series, const char* name); /* in the recorder's log */
/* Fields of the start message (docs/reference/stream-v2.md), and what else is to be kept; both are copied. */
PENSTOCK_API int penstock_set_metadata(penstock_series* series, const penstock_map* metadata);
PENSTOCK_API int penstock_set_user_data(penstock_series* series, const penstock_map* user_data);
/* This series has one element of a grid. */
PENSTOCK_API int penstock_set_element(penstock_series* series, uint32_t rows, uint32_t columns, uint32_t number);
/* After penstock_set_element(), where elements stand apart: the pixels, 0 to 65535, between each row of elements and
 * the next, and between each column and the next. A list is one shorter than there are rows, or columns; it may be left
 * out (NULL, 0) where these touch. */
PENSTOCK_API int penstock_set_element_gaps(penstock_series* series, const uint32_t* between_rows, size_t row_gaps,
                                           const uint32_t* between_columns, size_t column_gaps);
/* Not 0: join the series where the recorder has it. */
PENSTOCK_API int penstock_set_resume(penstock_series* series, int resume);
/* So much is kept until it is acknowledged; penstock_send() waits beyond. 1 GiB and 65536 frames; at least 1 each. */
PENSTOCK_API int penstock_set_resend(penstock_series* series, uint64_t bytes, uint64_t frames);
enum penstock_timeout {
  PENSTOCK_CONNECT_TIMEOUT = 1,   /* to have the first connection: 10 s */
  PENSTOCK_RECONNECT_TIMEOUT = 2, /* to have another one: 60 s */
  PENSTOCK_ANSWER_TIMEOUT = 3,    /* for the answer to the start, and for something to be taken: 600 s */
  PENSTOCK_CLOSE_TIMEOUT = 4      /* for the recorder to close the series: 600 s */
};
PENSTOCK_API int penstock_set_timeout(penstock_series* series, int which, int64_t milliseconds);

/* Connects, and starts the series. */
PENSTOCK_API int penstock_begin(penstock_series* series);

enum penstock_encoding { PENSTOCK_PLAIN = 0, PENSTOCK_BSLZ4 = 1, PENSTOCK_BSZSTD = 2, PENSTOCK_LZ4 = 3 };

/* Pixels of one channel. This structure never grows; the reserved members are 0. */
typedef struct penstock_pixels {
  const char* channel; /* NULL: the only one */
  const void* data;    /* plain: row after row, little-endian */
  uint64_t bytes;
  int32_t encoding; /* penstock_encoding: other than PENSTOCK_PLAIN are compressed already */
  int32_t reserved_1;
  void* reserved_2;
} penstock_pixels;

#define PENSTOCK_NEXT UINT64_MAX /* one more than the last number */
#define PENSTOCK_NO_TIME INT64_MIN
#define PENSTOCK_FOREVER INT64_C(-1)

/* Make it with PENSTOCK_FRAME_INIT: later versions have more members. */
typedef struct penstock_frame {
  size_t struct_size;
  const penstock_pixels* pixels; /* one for each channel that the frame has */
  size_t pixels_count;
  uint64_t number;              /* its place in the file; numbers must rise */
  const penstock_map* metadata; /* values of this frame, or NULL */
  /* Nanoseconds since penstock_date_ns(), and the exposure; or PENSTOCK_NO_TIME. */
  int64_t start_time_ns;
  int64_t stop_time_ns;
  int64_t real_time_ns;
  /* NULL: the pixels are copied, and the caller's again when penstock_send() returns. Otherwise they are sent from
   * where they lie and must not change until `release(release_context)`. That is called once for each penstock_send(),
   * within some call on the series: when the frame is acknowledged or refused, or when it was not taken, whatever is
   * returned. */
  void (*release)(void* context);
  void* release_context;
  int64_t timeout_ms; /* for room within penstock_set_resend(); PENSTOCK_FOREVER: no bound */
} penstock_frame;

#define PENSTOCK_FRAME_INIT                                                                                           \
  {                                                                                                                   \
    sizeof(penstock_frame), NULL, 0, PENSTOCK_NEXT, NULL, PENSTOCK_NO_TIME, PENSTOCK_NO_TIME, PENSTOCK_NO_TIME, NULL, \
        NULL, PENSTOCK_FOREVER                                                                                        \
  }

/* Sends a frame. Waits while too much is not acknowledged, while the recorder takes nothing, and for a connection.
 * PENSTOCK_COUNT_SENT has grown if the frame was taken: then it is kept, also where the call failed. */
PENSTOCK_API int penstock_send(penstock_series* series, const penstock_frame* frame);
/* The next frame of a series with one channel, copied. */
PENSTOCK_API int penstock_send_image(penstock_series* series, const void* pixels, uint64_t bytes);
/* Reads what the recorder said, without waiting. */
PENSTOCK_API int penstock_poll(penstock_series* series);
/* Waits until every frame is acknowledged or refused. Where the recorder's chunks have several frames the last ones are
 * only by penstock_end(). */
PENSTOCK_API int penstock_wait_acknowledged(penstock_series* series, int64_t timeout_ms);
/* Ends the series, and waits until the recorder has closed the file. */
PENSTOCK_API int penstock_end(penstock_series* series);

enum penstock_count_of {
  PENSTOCK_COUNT_SENT = 1,         /* frames that were taken */
  PENSTOCK_COUNT_ACKNOWLEDGED = 2, /* frames that the recorder called safe */
  PENSTOCK_COUNT_SAFE_BELOW = 3,   /* frames that were sent with a smaller number are safe or refused */
  PENSTOCK_COUNT_WAITING = 4,      /* frames that are kept */
  PENSTOCK_COUNT_WAITING_BYTES = 5,
  PENSTOCK_COUNT_RESENT = 6,     /* frames that were sent another time */
  PENSTOCK_COUNT_RECONNECTS = 7, /* connections that took the place of a lost one */
  PENSTOCK_COUNT_REFUSED = 8     /* frames that the recorder would not have */
};
/* 0 of what it does not know. */
PENSTOCK_API uint64_t penstock_count(const penstock_series* series, int which);
/* Number of the refused frame at `index`, and the reason (until the next call); of the first 1000. The number is
 * UINT64_MAX where the answer came thousands of frames later, and after an acknowledgement that covers it. */
PENSTOCK_API int penstock_refused(const penstock_series* series, size_t index, uint64_t* number, const char** reason);
/* The moment of penstock_begin(), in nanoseconds since 1970. */
PENSTOCK_API int64_t penstock_date_ns(const penstock_series* series);

#ifdef __cplusplus
}
#endif

#endif
