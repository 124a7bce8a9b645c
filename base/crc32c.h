/* CRC32C (Castagnoli), continued from crc; start with 0. */
#ifndef KYMO_BASE_CRC32C_H
#define KYMO_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t kymo_crc32c(uint32_t crc, const void *data, size_t n);

#endif
