/* What the example programs share: words for return codes and addresses. */
#ifndef VIP_APPS_COMMON_H
#define VIP_APPS_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <vipl.h>

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

/*
 * A VIP_NET_ADDRESS is a header that the bytes of the host address and then
 * those of the discriminator follow: a program has to bring the room.
 */
union address {
	VIP_NET_ADDRESS net;
	uint8_t room[512];
};

/* Room for the text of an address: "aa:bb:... (dotted quad)". */
#define ADDRESS_TEXT_MAX 128

/* The name that the programs put in front of their messages. */
extern const char *program_name;

/* "VIP_TIMEOUT" and the like. */
const char *return_name(VIP_RETURN code);

/* One message on standard error: what failed, the code's name, its sense. */
void complain_code(VIP_RETURN code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same without a code of VIPL's. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The host part of an address as people read it, else in hex. */
const char *host_text(const uint8_t *host, size_t len, char text[ADDRESS_TEXT_MAX]);

/* Bytes in hex, with colons in between. */
const char *hex_text(const uint8_t *bytes, size_t len, char text[ADDRESS_TEXT_MAX]);

void pause_ms(unsigned int ms);

/* A point in time on the monotonic clock, and the milliseconds left, 0 when it is over. */
struct timespec deadline_after(unsigned long ms);
unsigned long ms_until(const struct timespec *deadline);

/* Parses a decimal number from min to max; returns -1 for anything else. */
int parse_number(const char *text, unsigned long min, unsigned long max, unsigned long *number);

/*
 * Starts an address: the host given, no discriminator yet. Returns -1 when
 * the address of this NIC and a full discriminator would not fit.
 */
int address_start(union address *address, const VIP_NIC_ATTRIBUTES *nic, const uint8_t *host);

/* Puts the discriminator behind the host address. */
void address_discriminate(union address *address, const void *discriminator, size_t len);

#endif
