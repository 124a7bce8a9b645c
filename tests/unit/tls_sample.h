/* Certificates for tests, made afresh: PEM files in a directory. */
#ifndef KYMO_TESTS_TLS_SAMPLE_H
#define KYMO_TESTS_TLS_SAMPLE_H

#include "base/tls.h"

/* What there is in the directory; each name stands for NAME.pem and NAME.key. */
#define TLS_SAMPLE_SERVER "server"     /* for collector.test and 127.0.0.1, signed by ca.pem */
#define TLS_SAMPLE_CLIENT "client"     /* for host7.test */
#define TLS_SAMPLE_EXPIRED "expired"   /* as server, ended yesterday */
#define TLS_SAMPLE_STRANGER "stranger" /* as server, signed by stranger-ca.pem */

/* Aborts when it cannot. */
void tls_sample_make(const char *dir);
/* A context of the named certificate that trusts ca (a file of the directory). */
struct tls_context *tls_sample_context(const char *dir, enum tls_side side, const char *name, const char *ca);

#endif
