/* What the client makes of maps that it is given. */
#ifndef PENSTOCK_CLIENT_MAP_H
#define PENSTOCK_CLIENT_MAP_H

#include "client/cbor.h"
#include "client/penstock.h"

struct penstock_map {
  pst_buffer entries; /* keys and values one after another */
  uint64_t count;
};

/* Bytes of an element and the tag of its typed array; 0 of no type. */
size_t pst_type_bytes(int type);
uint64_t pst_type_tag(int type);
const char* pst_type_name(int type);

void pst_put_map(pst_buffer* buffer, const penstock_map* map);
/* 1 if the map has the key. Its value begins at `value`, if that is not NULL. */
int pst_map_has(const penstock_map* map, const char* key, pst_reader* value);
/* As `from`, with `element` under penstock.element; PENSTOCK_INVALID where penstock is there and no map. */
int pst_map_with_element(const penstock_map* from, const penstock_map* element, penstock_map* into);

#endif
