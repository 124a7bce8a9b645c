/* kymo neff inspect FILE: everything that a NEFF says, as text or JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/neff/neff.h"
#include "tools/neff_print.h"
#include "tools/subcommands.h"

static int usage(FILE *out, int code)
{
    (void)fputs("usage: kymo neff inspect FILE [--json] [--engine ENGINE] [--instructions] [--arch GENERATION]\n\n"
                "  --json          one JSON object instead of text\n"
                "  --engine E      only this engine: tensor, scalar, gpsimd, vector, sync\n"
                "  --instructions  list instructions too, not only how many of each opcode\n"
                "  --arch G        operand layouts of this generation (trn1, inf2, trn2, trn3); else the file's "
                "target, else trn2\n",
                out);
    return code;
}

struct options {
    const char *file, *engine, *arch;
    bool json, instructions, help;
};

static bool wrong(const char *why, const char *arg)
{
    (void)fprintf(stderr, "kymo neff inspect: %s %.64s\n", why, arg);
    return false;
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        bool more = i + 1 < argc;
        if (!strcmp(a, "--help") || !strcmp(a, "-h"))
            o->help = true;
        else if (!strcmp(a, "--json"))
            o->json = true;
        else if (!strcmp(a, "--instructions"))
            o->instructions = true;
        else if (!strcmp(a, "--engine") && more)
            o->engine = argv[++i];
        else if (!strcmp(a, "--arch") && more)
            o->arch = argv[++i];
        else if (a[0] != '-' && !o->file)
            o->file = a;
        else
            return wrong(a[0] == '-' ? "unknown option, or one without its value:" : "one file at a time:", a);
    }
    return o->help || o->file || wrong("no file is named", "");
}

static int inspect(const struct options *o)
{
    struct neff_print p = {.engine = KYMO_ENGINE_INVALID, .instructions = o->instructions};
    if (o->engine && (p.engine = kymo_engine_find(o->engine)) == KYMO_ENGINE_INVALID) {
        (void)fprintf(stderr, "kymo neff: no engine \"%s\"\n", o->engine);
        return 2;
    }
    if (o->arch && !(p.arch = kymo_arch_find(o->arch))) {
        (void)fprintf(stderr, "kymo neff: no generation \"%s\"\n", o->arch);
        return 2;
    }
    struct kymo_err err = {0};
    struct neff *n KYMO_CLEANUP(neff_freep) = NULL;
    enum neff_error cls;
    if (neff_open_classified(o->file, NULL, 0, 0, &n, &cls, &err) < 0) {
        (void)fprintf(stderr, "kymo neff: %s (%s)\n", err.text, neff_error_name(cls));
        return 1;
    }
    p.neff = n;
    if (!p.arch)
        p.arch = kymo_arch_of_target(neff_target(n));
    if (!p.arch)
        p.arch = kymo_arch_get(KYMO_GEN_TRN2);
    int r = o->json ? neff_print_json(&p, stdout) : neff_print_text(&p, stdout);
    if (r < 0 || fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "kymo neff: cannot write: %s\n", strerror(r < 0 ? -r : errno));
        return 1;
    }
    return 0;
}

int kymo_neff_main(int argc, char **argv)
{
    struct options o = {0};
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
        return usage(stdout, 0);
    if (argc >= 2 && strcmp(argv[1], "inspect") != 0)
        (void)fprintf(stderr, "kymo neff: no command \"%.64s\", there is inspect\n", argv[1]);
    if (argc < 2 || strcmp(argv[1], "inspect") != 0 || !parse(argc - 2, argv + 2, &o))
        return usage(stderr, 2);
    return o.help ? usage(stdout, 0) : inspect(&o);
}
