#include "tests/unit/tls_sample.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY 86400L

static void must(int holds)
{
    if (!holds)
        abort();
}

static void path_of(char *ret, size_t n, const char *dir, const char *name, const char *suffix)
{
    int len = snprintf(ret, n, "%s/%s.%s", dir, name, suffix);
    must(len > 0 && (size_t)len < n);
}

static void write_files(const char *dir, const char *name, X509 *cert, EVP_PKEY *key)
{
    char path[256];
    path_of(path, sizeof path, dir, name, "pem");
    BIO *out = BIO_new_file(path, "w");
    must(out && PEM_write_bio_X509(out, cert) == 1);
    BIO_free(out);
    path_of(path, sizeof path, dir, name, "key");
    out = BIO_new_file(path, "w");
    must(out && PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1);
    BIO_free(out);
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    must(e && X509_add_ext(cert, e, -1) == 1);
    X509_EXTENSION_free(e);
}

struct pair {
    X509 *cert;
    EVP_PKEY *key;
};

/* issuer NULL: an authority that signs itself. names: subjectAltName. */
static struct pair make(const char *common, const char *names, long from, long to, const struct pair *issuer)
{
    static long serial = 1;
    struct pair p = {X509_new(), EVP_EC_gen("P-256")};
    must(p.cert && p.key && X509_set_version(p.cert, 2) == 1);
    must(ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++) == 1);
    must(X509_gmtime_adj(X509_getm_notBefore(p.cert), from) && X509_gmtime_adj(X509_getm_notAfter(p.cert), to));
    must(X509_NAME_add_entry_by_txt(X509_get_subject_name(p.cert), "CN", MBSTRING_UTF8, (const unsigned char *)common,
                                    -1, -1, 0) == 1);
    must(X509_set_issuer_name(p.cert, X509_get_subject_name(issuer ? issuer->cert : p.cert)) == 1);
    must(X509_set_pubkey(p.cert, p.key) == 1);
    add_extension(p.cert, NID_basic_constraints, issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (names)
        add_extension(p.cert, NID_subject_alt_name, names);
    must(X509_sign(p.cert, issuer ? issuer->key : p.key, EVP_sha256()) > 0);
    return p;
}

static void done(struct pair *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
}

static void make_signed(const char *dir, const char *name, const char *common, const char *names, long to,
                        const struct pair *issuer)
{
    struct pair p = make(common, names, -2 * DAY, to, issuer);
    write_files(dir, name, p.cert, p.key);
    done(&p);
}

void tls_sample_make(const char *dir)
{
    const char *names = "DNS:collector.test,IP:127.0.0.1,DNS:localhost";
    struct pair ca = make("test authority", NULL, -2 * DAY, DAY, NULL);
    struct pair stranger = make("another authority", NULL, -2 * DAY, DAY, NULL);
    write_files(dir, "ca", ca.cert, ca.key);
    write_files(dir, "stranger-ca", stranger.cert, stranger.key);
    make_signed(dir, TLS_SAMPLE_SERVER, "collector", names, DAY, &ca);
    make_signed(dir, TLS_SAMPLE_CLIENT, "a client", "DNS:host7.test", DAY, &ca);
    make_signed(dir, TLS_SAMPLE_EXPIRED, "collector", names, -DAY, &ca);
    make_signed(dir, TLS_SAMPLE_STRANGER, "collector", names, DAY, &stranger);
    done(&ca);
    done(&stranger);
}

struct tls_context *tls_sample_context(const char *dir, enum tls_side side, const char *name, const char *ca)
{
    char cert[256], key[256], authority[256];
    path_of(cert, sizeof cert, dir, name, "pem");
    path_of(key, sizeof key, dir, name, "key");
    path_of(authority, sizeof authority, dir, ca, "pem");
    const struct tls_files files = {.cert = cert, .key = key, .ca = authority};
    struct tls_context *c;
    must(tls_context_new(side, &files, &c, NULL) == 0);
    return c;
}
