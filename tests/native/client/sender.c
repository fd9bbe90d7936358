/* Sends so many frames of 30 x 40 pixels, each with its number, at two thousand a second at most: sender ADDRESS
 * FRAMES. Prints the status of the end, frames that were acknowledged, frames that were sent again, and connections
 * that were made anew. */
#define _POSIX_C_SOURCE 200809L
#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  const uint64_t shape[] = {30, 40};
  const struct timespec pause = {0, 500000};
  static uint16_t image[30 * 40];
  penstock_series* series = penstock_new();
  int status = PENSTOCK_INVALID;
  long number, frames;
  if (argc != 3 || series == NULL) return 2;
  frames = strtol(argv[2], NULL, 10);
  penstock_set_address(series, argv[1]);
  penstock_set_name(series, "from-c");
  penstock_set_type(series, PENSTOCK_UINT16);
  penstock_set_shape(series, shape, 2);
  penstock_set_frames(series, (uint64_t)frames);
  status = penstock_begin(series);
  for (number = 0; number < frames && status == PENSTOCK_OK; ++number) {
    size_t i;
    for (i = 0; i < sizeof(image) / sizeof(image[0]); ++i) image[i] = (uint16_t)number;
    status = penstock_send_image(series, image, sizeof(image));
    nanosleep(&pause, NULL);
  }
  if (status == PENSTOCK_OK) status = penstock_end(series);
  if (status != PENSTOCK_OK) fprintf(stderr, "%s\n", penstock_error(series));
  printf("%d %llu %llu %llu\n", status, (unsigned long long)penstock_count(series, PENSTOCK_COUNT_ACKNOWLEDGED),
         (unsigned long long)penstock_count(series, PENSTOCK_COUNT_RESENT),
         (unsigned long long)penstock_count(series, PENSTOCK_COUNT_RECONNECTS));
  penstock_free(series);
  return 0;
}
