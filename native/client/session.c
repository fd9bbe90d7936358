#include "client/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
  FIRST_PAUSE_MS = 50,
  LAST_PAUSE_MS = 1000, /* between attempts to connect */
  HELLO_TIMEOUT_MS = 10000,
  WAIT_MS = 100,
  PIECES_MAX = 16,
  /* Connections lost one after another without a word on the series: the recorder will not have it. */
  FRUITLESS_MAX = 5
};
#define NO_SEQUENCE UINT64_MAX

int pst_fail(pst_session* session, int status, const char* format, ...) {
  char text[PST_ERROR_BYTES];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  (void)snprintf(session->error, sizeof(session->error), "%s", text);
  return status;
}

static int lost(pst_session* session, const char* why) { return pst_fail(session, PST_LOST, "%s", why); }

/* Lets go the frames that are known to be safe; how many these were. */
static uint64_t let_go_safe(pst_session* session) {
  const uint64_t acknowledged = pst_window_acknowledge(&session->window, session->counts[PENSTOCK_COUNT_SAFE_BELOW]);
  session->counts[PENSTOCK_COUNT_ACKNOWLEDGED] += acknowledged;
  return acknowledged;
}

static void drop_connection(pst_session* session) {
  if (session->socket != PST_NO_SOCKET) pst_net_close(session->socket);
  session->socket = PST_NO_SOCKET;
  pst_window_rewind(&session->window);
  (void)let_go_safe(session);
}

static int bounded(size_t size) { return size < 400 ? (int)size : 400; }

static int closed_early(pst_session* session) {
  const uint64_t left = session->window.count;
  if (session->closed_at_start && session->sent_below == 0)
    return pst_fail(session, PENSTOCK_PROBLEM, "%s:%s: the series \"%.80s\" had been closed already%s%.200s",
                    session->host, session->port, session->name, session->problem[0] ? "; " : "", session->problem);
  return pst_fail(session, PENSTOCK_PROBLEM,
                  "%s:%s: the recorder closed the series \"%.80s\": %.200s; %llu frames were not acknowledged",
                  session->host, session->port, session->name,
                  session->problem[0]                         ? session->problem
                  : strcmp(session->ended_by, "stop") == 0    ? "the recorder was stopped"
                  : strcmp(session->ended_by, "command") == 0 ? "the recorder ended it on request"
                                                              : "it was ended early",
                  (unsigned long long)left);
}

static int stopped(pst_session* session) {
  return pst_fail(session, PENSTOCK_DISCONNECTED,
                  "%s:%s: the recorder was stopped, and has not closed the series \"%.80s\"; %llu frames are not "
                  "acknowledged",
                  session->host, session->port, session->name, (unsigned long long)session->window.count);
}

int pst_session_check_open(pst_session* session) {
  if (session->closed && !session->ending) return closed_early(session);
  if (session->over || session->ending)
    return pst_fail(session, PENSTOCK_INVALID, "the series \"%.80s\" is over, or has not begun", session->name);
  return PENSTOCK_OK;
}

/* What the recorder says. */

/* Notes a frame that was refused, once: an error for each channel may come. An acknowledgement that covers the frame
 * may come first; what was refused is in the ledger, not in the file. */
static void note_refusal(pst_session* session, const pst_reply* reply) {
  const size_t place = (size_t)(reply->sequence % PST_RECENT);
  const int is_recent = session->recent[place].sequence == reply->sequence;
  uint64_t number = is_recent ? session->recent[place].number : UINT64_MAX;
  pst_refusal* refusal;
  if (is_recent) session->recent[place].sequence = NO_SEQUENCE;
  if (!pst_window_refuse(&session->window, reply->sequence, &number)) {
    if (!is_recent && reply->sequence + PST_RECENT > session->sequence) return;
    --session->counts[PENSTOCK_COUNT_ACKNOWLEDGED];
  }
  ++session->counts[PENSTOCK_COUNT_REFUSED];
  if (session->refusals_count == PST_REFUSALS_MAX) return;
  refusal = &session->refusals[session->refusals_count++];
  refusal->number = number;
  (void)snprintf(refusal->reason, sizeof(refusal->reason), "%.*s", bounded(reply->text.size), reply->text.data);
}

static int handle_error(pst_session* session, const pst_reply* reply) {
  /* Other connections displaced it, or its hello was late: a retry may succeed. */
  const int may_try_again = pst_view_is(reply->code, "no_place") || pst_view_is(reply->code, "timed_out");
  const char* what;
  if (!session->greeted && may_try_again) {
    (void)pst_fail(session, PST_LOST, "the recorder rejects the connection: %.*s", bounded(reply->text.size),
                   reply->text.data);
    return PST_LOST;
  }
  if (session->closed) return PENSTOCK_OK; /* what is not acknowledged now is lost, and counted */
  if (session->greeted && reply->sequence == 0) {
    (void)snprintf(session->state, sizeof(session->state), "%.*s", bounded(reply->text.size), reply->text.data);
    (void)pst_fail(session, PST_LOST, "the recorder ends the connection: %.*s", bounded(reply->text.size),
                   reply->text.data);
    return PST_LOST;
  }
  what = !session->greeted                            ? "the connection"
         : reply->sequence == session->start_sequence ? "the series"
         : reply->sequence == session->end_sequence   ? "the end of the series"
                                                      : NULL;
  if (what != NULL)
    return pst_fail(session, PENSTOCK_REFUSED, "%s:%s: the recorder rejects %s \"%.80s\": %.*s", session->host,
                    session->port, what, session->name, bounded(reply->text.size), reply->text.data);
  note_refusal(session, reply);
  return PENSTOCK_OK;
}

/* Below which frame this client's are safe. The recorder closes a series that is resumed with what all clients sent. */
static uint64_t safe_below_of(const pst_session* session, const pst_reply* reply) {
  const int is_of_all = reply->kind == PST_CLOSED && session->resumes;
  return is_of_all && reply->safe_below > session->sent_below ? session->sent_below : reply->safe_below;
}

static int handle(pst_session* session, const pst_reply* reply) {
  uint64_t acknowledged, safe_below;
  if (reply->kind == PST_HELLO) session->greeted = 1;
  if (reply->kind == PST_BYE) {
    session->stopped = 1;
    return lost(session, "the recorder was stopped");
  }
  if (reply->kind == PST_ERROR) return handle_error(session, reply);
  if (reply->kind != PST_ACK && reply->kind != PST_CLOSED) return PENSTOCK_OK;
  if (!pst_view_is(reply->series, session->name)) return PENSTOCK_OK;
  safe_below = safe_below_of(session, reply);
  if (safe_below > session->sent_below)
    return pst_fail(
        session, PENSTOCK_PROTOCOL,
        "%s:%s: the recorder acknowledged frames below %llu of series \"%.80s\", but only frames below %llu "
        "were sent: its acknowledgements are not reliable",
        session->host, session->port, (unsigned long long)safe_below, session->name,
        (unsigned long long)session->sent_below);
  if (reply->kind == PST_CLOSED) session->closed_at_start = !session->answered;
  session->answered = 1;
  session->fruitless = 0;
  if (safe_below > session->counts[PENSTOCK_COUNT_SAFE_BELOW]) session->counts[PENSTOCK_COUNT_SAFE_BELOW] = safe_below;
  acknowledged = let_go_safe(session);
  if (acknowledged > 0 || reply->kind == PST_CLOSED) session->state[0] = 0;
  if (reply->kind == PST_CLOSED) {
    session->closed = 1;
    (void)snprintf(session->ended_by, sizeof(session->ended_by), "%.*s",
                   reply->ended_by.size < 31 ? (int)reply->ended_by.size : 31, reply->ended_by.data);
    (void)snprintf(session->problem, sizeof(session->problem), "%.*s", bounded(reply->text.size), reply->text.data);
  }
  return PENSTOCK_OK;
}

static int handle_received(pst_session* session) {
  size_t taken = 0;
  int status = PENSTOCK_OK;
  while (status == PENSTOCK_OK && session->received_bytes - taken >= PST_HEADER_BYTES) {
    const uint8_t* at = session->received + taken;
    const char* why;
    pst_header header;
    pst_reply reply;
    if (pst_decode_header(at, &header, &why) != 0)
      return pst_fail(session, PENSTOCK_PROTOCOL, "%s:%s: this is not a recorder: %s", session->host, session->port,
                      why);
    if (session->received_bytes - taken < PST_HEADER_BYTES + (size_t)header.message_bytes) break;
    if (pst_decode_reply(&header, at + PST_HEADER_BYTES, &reply, &why) != 0)
      return pst_fail(session, PENSTOCK_PROTOCOL, "%s:%s: this is not a recorder: %s", session->host, session->port,
                      why);
    status = handle(session, &reply);
    taken += PST_HEADER_BYTES + header.message_bytes;
  }
  session->received_bytes -= taken;
  memmove(session->received, session->received + taken, session->received_bytes);
  return status;
}

/* Handles what has come, without waiting. */
static int receive(pst_session* session) {
  const size_t capacity = PST_HEADER_BYTES + PST_REPLY_BYTES_MAX;
  session->looked_ms = pst_now_ms();
  for (;;) {
    const int64_t got = pst_net_receive(session->socket, session->received + session->received_bytes,
                                        capacity - session->received_bytes);
    int status;
    if (got > 0) session->received_bytes += (size_t)got;
    status = got == 0 ? PENSTOCK_OK : handle_received(session);
    if (status != PENSTOCK_OK || got == 0) return status;
    if (got < 0) return lost(session, "the connection was closed");
  }
}

/* The same, where the last look is a while ago. */
static int look(pst_session* session) { return pst_now_ms() != session->looked_ms ? receive(session) : PENSTOCK_OK; }

static int wait_for(pst_session* session, int wanted, int64_t timeout_ms) {
  return pst_net_wait(session->socket, wanted, timeout_ms) & PST_READABLE ? receive(session) : PENSTOCK_OK;
}

/* Sending. */

/* One message. Returns when all of it is on its way, and has not looked for replies since. */
static int send_pieces(pst_session* session, pst_piece* pieces, size_t count) {
  int64_t stalled_ms = 0;
  size_t first = 0;
  ++session->sequence;
  while (first < count) {
    int64_t sent = pst_net_send(session->socket, pieces + first, count - first);
    if (sent < 0) {
      const int status = receive(session); /* its last words may say why */
      return status != PENSTOCK_OK ? status : lost(session, "the connection was lost");
    }
    if (sent > 0) stalled_ms = 0;
    if (sent == 0 && stalled_ms == 0) stalled_ms = pst_now_ms();
    while (first < count && (uint64_t)sent >= pieces[first].bytes) sent -= (int64_t)pieces[first++].bytes;
    if (first == count) break;
    pieces[first].data = (const uint8_t*)pieces[first].data + sent;
    pieces[first].bytes -= (size_t)sent;
    if (stalled_ms > 0 && pst_now_ms() - stalled_ms > session->timeout_ms[PENSTOCK_ANSWER_TIMEOUT])
      return lost(session, "the recorder took nothing for too long");
    {
      const int status = wait_for(session, PST_READABLE | PST_WRITABLE, WAIT_MS);
      if (status != PENSTOCK_OK) return status;
    }
  }
  return PENSTOCK_OK;
}

static int send_message(pst_session* session, int kind, uint32_t flags, const void* message, size_t bytes) {
  uint8_t head[PST_HEADER_BYTES];
  pst_header header;
  pst_piece pieces[2];
  int status;
  memset(&header, 0, sizeof(header));
  header.kind = kind;
  header.flags = flags;
  header.message_bytes = (uint32_t)bytes;
  header.sequence = session->sequence;
  header.message_crc = pst_crc32c(message, bytes);
  pst_encode_header(&header, head);
  pieces[0].data = head;
  pieces[0].bytes = sizeof(head);
  pieces[1].data = message;
  pieces[1].bytes = bytes;
  status = send_pieces(session, pieces, 2);
  return status != PENSTOCK_OK ? status : look(session);
}

/* In parts, where it has more pieces than go out at once: the header and the first ones, and so on. */
static int send_frame(pst_session* session, pst_kept* frame) {
  pst_piece pieces[PIECES_MAX + 64];
  pst_header header;
  int status;
  memset(&header, 0, sizeof(header));
  header.kind = PST_IMAGE;
  header.message_bytes = (uint32_t)(frame->head_bytes - PST_HEADER_BYTES);
  header.pixels_bytes = frame->pixels_bytes;
  header.sequence = frame->sequence = session->sequence;
  if (session->sent_below <= frame->number) session->sent_below = frame->number + 1;
  header.message_crc = frame->message_crc;
  session->recent[frame->sequence % PST_RECENT].sequence = frame->sequence;
  session->recent[frame->sequence % PST_RECENT].number = frame->number;
  pst_encode_header(&header, frame->head);
  pieces[0].data = frame->head;
  pieces[0].bytes = frame->head_bytes;
  memcpy(pieces + 1, frame->pixels, frame->pixels_count * sizeof(pst_piece));
  status = send_pieces(session, pieces, frame->pixels_count + 1);
  if (status != PENSTOCK_OK) return status;
  if (frame->sent_before) ++session->counts[PENSTOCK_COUNT_RESENT];
  pst_window_sent(&session->window);
  (void)let_go_safe(session); /* its acknowledgement may have come while it was being sent */
  return look(session);
}

static int send_rest(pst_session* session) {
  while (session->window.unsent != NULL && !session->closed) {
    const int status = send_frame(session, session->window.unsent);
    if (status != PENSTOCK_OK) return status;
  }
  if (!session->ending || session->closed || session->end_sequence != NO_SEQUENCE) return PENSTOCK_OK;
  session->end_sequence = session->sequence;
  return send_message(session, PST_END, 0, session->end.data, session->end.size);
}

/* Connecting. */

static int await(pst_session* session, const int* done, int64_t timeout_ms, const char* what) {
  const int64_t give_up_ms = pst_now_ms() + timeout_ms;
  while (!*done) {
    const int late = pst_now_ms() > give_up_ms;
    const int status = wait_for(session, PST_READABLE, WAIT_MS);
    if (status != PENSTOCK_OK) return status;
    if (!*done && late) return lost(session, what);
  }
  return PENSTOCK_OK;
}

static int connect_once(pst_session* session, int64_t timeout_ms) {
  char why[128];
  int status;
  session->greeted = session->answered = 0;
  session->start_sequence = session->end_sequence = NO_SEQUENCE;
  session->sequence = 0;
  session->received_bytes = 0;
  memset(session->recent, 0xff, sizeof(session->recent)); /* NO_SEQUENCE */
  session->socket = pst_net_connect(session->host, session->port, timeout_ms, why, sizeof(why));
  if (session->socket == PST_NO_SOCKET) return lost(session, why);
  status = send_message(session, PST_HELLO, 0, session->hello.data, session->hello.size);
  if (status == PENSTOCK_OK)
    status = await(session, &session->greeted, timeout_ms < HELLO_TIMEOUT_MS ? timeout_ms : HELLO_TIMEOUT_MS,
                   "no answer to hello");
  if (status != PENSTOCK_OK) return status;
  session->start_sequence = session->sequence;
  session->resumes = session->resume || session->start_was_sent;
  session->start_was_sent = 1; /* first: the connection may be lost while the start goes out */
  status =
      send_message(session, PST_START, session->resumes ? PST_RESUME : 0, session->start.data, session->start.size);
  if (status == PENSTOCK_OK)
    status = await(session, &session->answered, session->timeout_ms[PENSTOCK_ANSWER_TIMEOUT], "no answer to the start");
  if (status == PST_LOST && ++session->fruitless > FRUITLESS_MAX) {
    char last[200];
    (void)snprintf(last, sizeof(last), "%.199s", session->error);
    return pst_fail(session, PENSTOCK_REFUSED,
                    "%s:%s: lost %d connections in a row without an answer to the start of series \"%.80s\", the last "
                    "one because: %s; see the recorder's log",
                    session->host, session->port, session->fruitless, session->name, last);
  }
  return status;
}

static int connect_patiently(pst_session* session, int64_t patience_ms) {
  const int64_t give_up_ms = pst_now_ms() + patience_ms;
  int64_t pause_ms = FIRST_PAUSE_MS;
  for (;;) {
    const int64_t left_ms = give_up_ms - pst_now_ms();
    const int status = connect_once(session, left_ms > WAIT_MS ? left_ms : WAIT_MS);
    char last[200];
    if (status == PENSTOCK_OK) session->stopped = 0; /* another one is there now */
    if (status == PENSTOCK_OK) return status;
    drop_connection(session);
    if (status != PST_LOST) return status;
    if (pst_now_ms() + pause_ms > give_up_ms) {
      (void)snprintf(last, sizeof(last), "%.199s", session->error);
      return pst_fail(session, PENSTOCK_DISCONNECTED,
                      "%s:%s: no connection to a recorder for %lld ms: %s; %llu frames are not acknowledged",
                      session->host, session->port, (long long)patience_ms, last,
                      (unsigned long long)session->window.count);
    }
    pst_sleep_ms(pause_ms);
    pause_ms = 2 * pause_ms < LAST_PAUSE_MS ? 2 * pause_ms : LAST_PAUSE_MS;
  }
}

int pst_session_begin(pst_session* session) {
  session->acknowledged_before = NO_SEQUENCE;
  session->start_was_sent = 0;
  return connect_patiently(session, session->timeout_ms[PENSTOCK_CONNECT_TIMEOUT]);
}

static int reconnect(pst_session* session) {
  int status;
  /* Connections that bring nothing follow each other slowly. */
  const uint64_t acknowledged = session->counts[PENSTOCK_COUNT_ACKNOWLEDGED];
  if (acknowledged == session->acknowledged_before) {
    session->pause_ms = session->pause_ms == 0 ? FIRST_PAUSE_MS : 2 * session->pause_ms;
    if (session->pause_ms > LAST_PAUSE_MS) session->pause_ms = LAST_PAUSE_MS;
    pst_sleep_ms(session->pause_ms);
  } else {
    session->pause_ms = 0;
  }
  session->acknowledged_before = acknowledged;
  status = connect_patiently(session, session->timeout_ms[PENSTOCK_RECONNECT_TIMEOUT]);
  if (status == PENSTOCK_OK) ++session->counts[PENSTOCK_COUNT_RECONNECTS];
  return status;
}

/* All that was sent is in the file, and nothing went wrong. */
static int is_whole(const pst_session* session) {
  return session->closed && session->problem[0] == 0 && session->window.count == 0;
}

/* Runs `step` once. PST_LOST: there is no connection any more, and another one may be better. */
static int attempt(pst_session* session, int (*step)(pst_session*)) {
  const int status = session->socket == PST_NO_SOCKET ? PST_LOST : step(session);
  if (status == PENSTOCK_OK) return status;
  drop_connection(session); /* a message may be cut short */
  if (status != PST_LOST) return status;
  if (session->closed) return session->ending || is_whole(session) ? PENSTOCK_OK : closed_early(session);
  return session->stopped ? stopped(session) : PST_LOST;
}

/* Runs `step` until it succeeds, with a new connection each time one is lost. */
static int persist(pst_session* session, int (*step)(pst_session*)) {
  for (;;) {
    int status = attempt(session, step);
    if (status != PST_LOST) return status;
    status = reconnect(session);
    if (status != PENSTOCK_OK) return status;
  }
}

/* The calls of users. */

static int wait_a_moment(pst_session* session) {
  const int status = send_rest(session);
  return status != PENSTOCK_OK ? status : wait_for(session, PST_READABLE, WAIT_MS);
}

static int timed_out(pst_session* session, const char* what, int64_t timeout_ms) {
  return pst_fail(session, PENSTOCK_TIMEOUT,
                  "%s:%s: series \"%.80s\": %s after %lld ms; %llu frames of %llu bytes are not acknowledged%s%.200s",
                  session->host, session->port, session->name, what, (long long)timeout_ms,
                  (unsigned long long)session->window.count, (unsigned long long)session->window.pixels_bytes,
                  session->state[0] ? "; the recorder's last words were: " : "", session->state);
}

/* One turn of a wait until `give_up_ms`, or for ever where `timeout_ms` is negative. A thread that had no processor
 * until then looks once more. A connection that is lost may have brought what is waited for: the next turn, if there
 * is one, begins with another. */
static int turn(pst_session* session, int64_t give_up_ms, int64_t timeout_ms, const char* what) {
  const int late = timeout_ms >= 0 && pst_now_ms() > give_up_ms;
  int status = session->socket == PST_NO_SOCKET ? persist(session, receive) : PENSTOCK_OK;
  if (status == PENSTOCK_OK) status = attempt(session, wait_a_moment);
  if (status == PST_LOST) status = PENSTOCK_OK;
  if (status == PENSTOCK_OK && !session->ending) status = pst_session_check_open(session);
  return status == PENSTOCK_OK && late ? timed_out(session, what, timeout_ms) : status;
}

int pst_session_make_room(pst_session* session, uint64_t bytes, int64_t timeout_ms) {
  const int64_t give_up_ms = pst_now_ms() + timeout_ms;
  while (pst_window_is_full(&session->window, bytes)) {
    const int status = turn(session, give_up_ms, timeout_ms, "the frame found no room");
    if (status != PENSTOCK_OK && (status != PENSTOCK_TIMEOUT || pst_window_is_full(&session->window, bytes)))
      return status;
  }
  return PENSTOCK_OK;
}

int pst_session_wait(pst_session* session, int64_t timeout_ms) {
  const int64_t give_up_ms = pst_now_ms() + timeout_ms;
  while (session->window.count > 0) {
    const int status = turn(session, give_up_ms, timeout_ms, "not all frames are acknowledged");
    /* The series may be closed, the connection lost, or the time over, when the last acknowledgement comes: that is
     * no failure. */
    if (status != PENSTOCK_OK && (session->window.count > 0 || status == PENSTOCK_PROTOCOL)) return status;
  }
  return PENSTOCK_OK;
}

int pst_session_flush(pst_session* session) { return persist(session, send_rest); }

int pst_session_poll(pst_session* session) { return persist(session, receive); }

int pst_session_end(pst_session* session) {
  const int64_t timeout_ms = session->timeout_ms[PENSTOCK_CLOSE_TIMEOUT];
  const int64_t give_up_ms = pst_now_ms() + timeout_ms;
  session->ending = 1;
  while (!session->closed) {
    const int status = turn(session, give_up_ms, timeout_ms, "the series is not closed");
    if (status != PENSTOCK_OK && !(status == PENSTOCK_TIMEOUT && session->closed)) {
      pst_session_abandon(session);
      return status;
    }
  }
  if (session->socket != PST_NO_SOCKET) {
    static const uint8_t bye[] = {0xd9, 0xd9, 0xf7, 0xa1, 0x64, 't', 'y', 'p', 'e', 0x63, 'b', 'y', 'e'};
    (void)send_message(session, PST_BYE, 0, bye, sizeof(bye));
  }
  pst_session_abandon(session);
  return session->problem[0] || session->window.count > 0 ? closed_early(session) : PENSTOCK_OK;
}

void pst_session_abandon(pst_session* session) {
  session->over = 1;
  drop_connection(session);
}
