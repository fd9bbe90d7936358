#include "client/window.h"

#include <stdlib.h>
#include <string.h>

pst_kept* pst_kept_new(const penstock_frame* frame, const pst_buffer* message) {
  /* One piece of memory: the structure, the header, the message, and the pixels where they are copied. */
  const size_t fixed = sizeof(pst_kept) + frame->pixels_count * sizeof(pst_piece);
  const size_t head_bytes = PST_HEADER_BYTES + message->size;
  uint64_t pixels_bytes = 0;
  uint8_t* memory;
  pst_kept* kept;
  size_t i;
  for (i = 0; i < frame->pixels_count; ++i) pixels_bytes += frame->pixels[i].bytes;
  if (pixels_bytes > SIZE_MAX / 2) return NULL;
  memory = (uint8_t*)malloc(fixed + head_bytes + (frame->release == NULL ? (size_t)pixels_bytes : 0));
  if (memory == NULL) return NULL;
  kept = (pst_kept*)(void*)memory;
  memset(kept, 0, fixed);
  kept->sequence = PST_UNSENT;
  kept->pixels_bytes = pixels_bytes;
  kept->message_crc = pst_crc32c(message->data, message->size);
  kept->head = memory + fixed;
  kept->head_bytes = head_bytes;
  memcpy(kept->head + PST_HEADER_BYTES, message->data, message->size);
  kept->pixels_count = frame->pixels_count;
  memory += fixed + head_bytes;
  for (i = 0; i < frame->pixels_count; ++i) {
    kept->pixels[i].bytes = (size_t)frame->pixels[i].bytes;
    kept->pixels[i].data = frame->pixels[i].data;
    if (frame->release != NULL) continue;
    memcpy(memory, frame->pixels[i].data, kept->pixels[i].bytes);
    kept->pixels[i].data = memory;
    memory += kept->pixels[i].bytes;
  }
  kept->release = frame->release;
  kept->release_context = frame->release_context;
  return kept;
}

static void let_go(pst_window* window, pst_kept* frame) {
  --window->count;
  window->pixels_bytes -= frame->pixels_bytes;
  if (frame->release != NULL) frame->release(frame->release_context);
  free(frame);
}

static void take_out(pst_window* window, pst_kept* frame, pst_kept* before) {
  if (before != NULL)
    before->next = frame->next;
  else
    window->first = frame->next;
  if (window->last == frame) window->last = before;
  if (window->unsent == frame) window->unsent = frame->next;
  let_go(window, frame);
}

void pst_window_push(pst_window* window, pst_kept* frame) {
  if (window->last != NULL)
    window->last->next = frame;
  else
    window->first = frame;
  window->last = frame;
  if (window->unsent == NULL) window->unsent = frame;
  ++window->count;
  window->pixels_bytes += frame->pixels_bytes;
}

int pst_window_is_full(const pst_window* window, uint64_t more_bytes) {
  if (window->count == 0) return 0;
  return window->count >= window->count_max || more_bytes > window->bytes_max ||
         window->pixels_bytes > window->bytes_max - more_bytes;
}

static void drop_refused(pst_window* window) {
  pst_kept* before = NULL;
  pst_kept* each = window->first;
  while (each != NULL) {
    pst_kept* next = each->next;
    if (each->refused)
      take_out(window, each, before);
    else
      before = each;
    each = next;
  }
}

void pst_window_sent(pst_window* window) {
  const int refused = window->unsent->refused;
  window->unsent = window->unsent->next;
  if (refused) drop_refused(window);
}

/* Its message must not be cut short. */
static int is_being_sent(const pst_window* window, const pst_kept* frame) {
  return frame == window->unsent && frame->sequence != PST_UNSENT;
}

uint64_t pst_window_acknowledge(pst_window* window, uint64_t safe_below) {
  uint64_t count = 0;
  while (window->first != NULL && !is_being_sent(window, window->first) && window->first->number < safe_below) {
    take_out(window, window->first, NULL);
    ++count;
  }
  return count;
}

int pst_window_refuse(pst_window* window, uint64_t sequence, uint64_t* number) {
  int sent = 1;
  pst_kept* before = NULL;
  pst_kept* each;
  for (each = window->first; each != NULL; before = each, each = each->next) {
    if (each == window->unsent) sent = 0;
    if (each->sequence != sequence || each->refused) continue;
    *number = each->number;
    if (sent)
      take_out(window, each, before);
    else
      each->refused = 1; /* its message must not be cut short: it goes once it is sent */
    return 1;
  }
  return 0;
}

void pst_window_rewind(pst_window* window) {
  int sent = 1;
  pst_kept* each;
  drop_refused(window);
  for (each = window->first; each != NULL; each = each->next) {
    if (each == window->unsent) sent = 0;
    if (sent) each->sent_before = 1;
    each->sequence = PST_UNSENT;
  }
  window->unsent = window->first;
}

void pst_window_clear(pst_window* window) {
  while (window->first != NULL) take_out(window, window->first, NULL);
}
