/* The frames that were handed over and are not acknowledged, in the order in which they are sent. */
#ifndef PENSTOCK_CLIENT_WINDOW_H
#define PENSTOCK_CLIENT_WINDOW_H

#include "client/net.h"
#include "client/penstock.h"
#include "client/wire.h"

typedef struct pst_kept {
  struct pst_kept* next;
  uint64_t number;
  uint64_t sequence; /* on this connection; PST_UNSENT: not begun */
  uint64_t pixels_bytes;
  uint32_t message_crc;
  int sent_before; /* on a connection that is gone */
  int refused;     /* before it was wholly sent */
  void (*release)(void* context);
  void* release_context;
  uint8_t* head; /* the header and the message behind it */
  size_t head_bytes;
  size_t pixels_count;
  pst_piece pixels[1]; /* pixels_count of them */
} pst_kept;

#define PST_UNSENT UINT64_MAX

typedef struct pst_window {
  pst_kept* first;
  pst_kept* last;
  pst_kept* unsent; /* the first that is not wholly sent, or NULL */
  uint64_t count;
  uint64_t pixels_bytes;
  uint64_t bytes_max;
  uint64_t count_max;
} pst_window;

/* A frame with room for a message; NULL without memory. With `release` NULL the pixels are copied. */
pst_kept* pst_kept_new(const penstock_frame* frame, const pst_buffer* message);
void pst_window_push(pst_window* window, pst_kept* frame);
/* The first frame always finds room. */
int pst_window_is_full(const pst_window* window, uint64_t more_bytes);
/* `unsent` is sent. */
void pst_window_sent(pst_window* window);
/* Lets go what is safe, sent on this connection or on one before; how many frames that were. The frame that is being
 * sent stays. */
uint64_t pst_window_acknowledge(pst_window* window, uint64_t safe_below);
/* Lets go the frame with this sequence number; 0 if there is none, else 1 and its number. */
int pst_window_refuse(pst_window* window, uint64_t sequence, uint64_t* number);
/* Everything is to be sent again, over another connection. */
void pst_window_rewind(pst_window* window);
void pst_window_clear(pst_window* window);

#endif
