/* A series as the recorder sees it: a connection, another one when that is lost, and what is not acknowledged. */
#ifndef PENSTOCK_CLIENT_SESSION_H
#define PENSTOCK_CLIENT_SESSION_H

#include "client/window.h"

enum { PST_RECENT = 4096, PST_ERROR_BYTES = 512, PST_REFUSALS_MAX = 1000, PST_REASON_BYTES = 160, PST_LOST = 100 };

typedef struct pst_refusal {
  uint64_t number;
  char reason[PST_REASON_BYTES];
} pst_refusal;

typedef struct pst_session {
  /* What it is; set before pst_session_begin(). */
  char host[256];
  char port[8];
  char* name;
  pst_buffer hello, start, end;
  int64_t timeout_ms[5]; /* by penstock_timeout */
  int resume;            /* what the user wants */
  int start_was_sent;    /* the recorder may know the series: each further start resumes it */

  char error[PST_ERROR_BYTES];
  pst_window window;
  uint64_t counts[9]; /* by penstock_count_of; what the window knows is there */
  pst_refusal* refusals;
  size_t refusals_count;

  /* The connection. */
  pst_socket socket;
  uint64_t sequence;
  uint8_t* received; /* PST_HEADER_BYTES + PST_REPLY_BYTES_MAX of them */
  size_t received_bytes;
  int64_t looked_ms;
  int greeted, answered;
  int resumes; /* its start has the flag `resume` */
  uint64_t start_sequence, end_sequence;
  /* Frames whose numbers are known by their messages, acknowledged or not: at the sequence number modulo PST_RECENT. */
  struct {
    uint64_t sequence, number;
  } recent[PST_RECENT];

  /* The series. */
  int over, ending, closed;
  int closed_at_start;         /* in answer to the start, which was sent with the flag `resume` */
  int stopped;                 /* the recorder was, on purpose: nobody is there to connect to */
  char state[PST_ERROR_BYTES]; /* of penstock_state() */
  char ended_by[32];
  uint64_t sent_below; /* one past the highest number of a frame of which anything was sent */
  char problem[PST_ERROR_BYTES];
  int fruitless;
  int64_t pause_ms;
  uint64_t acknowledged_before;
} pst_session;

/* Sets the words of penstock_error(); returns `status`. */
#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
int pst_fail(pst_session* session, int status, const char* format, ...);

/* All return a penstock_status. */
int pst_session_begin(pst_session* session);
int pst_session_check_open(pst_session* session);
int pst_session_make_room(pst_session* session, uint64_t bytes, int64_t timeout_ms);
int pst_session_flush(pst_session* session);
int pst_session_poll(pst_session* session);
int pst_session_wait(pst_session* session, int64_t timeout_ms);
int pst_session_end(pst_session* session);
void pst_session_abandon(pst_session* session);

#endif
