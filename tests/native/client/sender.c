/* Sends frames of 30 x 40 pixels, each with its number, at most a thousand per second, until standard input ends:
 * sender ADDRESS. Prints the status of the end, frames that were sent, frames that were acknowledged, frames that were
 * sent again, and connections that were made anew. */
#define _POSIX_C_SOURCE 200809L
#include <penstock.h>
#include <poll.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const uint64_t shape[] = {30, 40};
  static uint16_t image[30 * 40];
  struct pollfd input = {0, POLLIN, 0};
  penstock_series* series = penstock_new();
  int status = PENSTOCK_INVALID;
  long number;
  if (argc != 2 || series == NULL) return 2;
  penstock_set_address(series, argv[1]);
  penstock_set_name(series, "from-c");
  penstock_set_type(series, PENSTOCK_UINT16);
  penstock_set_shape(series, shape, 2);
  status = penstock_begin(series);
  for (number = 0; status == PENSTOCK_OK && poll(&input, 1, 1) == 0; ++number) {
    size_t i;
    for (i = 0; i < sizeof(image) / sizeof(image[0]); ++i) image[i] = (uint16_t)number;
    status = penstock_send_image(series, image, sizeof(image));
  }
  if (status == PENSTOCK_OK) status = penstock_end(series);
  if (status != PENSTOCK_OK) fprintf(stderr, "%s\n", penstock_error(series));
  printf("%d %ld %llu %llu %llu\n", status, number,
         (unsigned long long)penstock_count(series, PENSTOCK_COUNT_ACKNOWLEDGED),
         (unsigned long long)penstock_count(series, PENSTOCK_COUNT_RESENT),
         (unsigned long long)penstock_count(series, PENSTOCK_COUNT_RECONNECTS));
  penstock_free(series);
  return 0;
}
