/* Sockets and clocks, POSIX and Windows. The only part of the client that knows either. */
#ifndef PENSTOCK_CLIENT_NET_H
#define PENSTOCK_CLIENT_NET_H

#include <stddef.h>
#include <stdint.h>

typedef intptr_t pst_socket;
#define PST_NO_SOCKET ((pst_socket)-1)

typedef struct pst_piece {
  const void* data;
  size_t bytes;
} pst_piece;

enum { PST_READABLE = 1, PST_WRITABLE = 2 };

/* Once for each series, in pairs; 0 if there is a network. */
int pst_net_begin(void);
void pst_net_end(void);

/* A connection that never blocks, or PST_NO_SOCKET with the reason in `why`. */
pst_socket pst_net_connect(const char* host, const char* port, int64_t timeout_ms, char* why, size_t why_bytes);
void pst_net_close(pst_socket socket);
/* Bytes that were taken, 0 when there is no room now, -1 where the connection is lost. At most 16 pieces are looked at.
 */
int64_t pst_net_send(pst_socket socket, const pst_piece* pieces, size_t count);
/* Bytes that came, 0 for none now, -1 where the connection is lost or has ended. */
int64_t pst_net_receive(pst_socket socket, void* into, size_t bytes);
/* Waits for one of `wanted`; which of them are there. */
int pst_net_wait(pst_socket socket, int wanted, int64_t timeout_ms);

int64_t pst_now_ms(void);      /* of a clock that only rises */
int64_t pst_realtime_ns(void); /* since 1970 */
void pst_sleep_ms(int64_t milliseconds);
uint64_t pst_process_id(void);

#endif
