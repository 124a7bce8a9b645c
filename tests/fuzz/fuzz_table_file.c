/*
 * Parquet files of kymo's writer, as the server reads them: the footer, then all rows and some rows of all columns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "formats/parquet_read/table_reader.h"

#define ROWS_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const columns[] = {"kind",  "level",   "bucket_ns", "timeline_track",     "start_ts",
                                      "label", "nothing", "busy_ns",   "mfu_instant_percent"};
#define N (sizeof columns / sizeof *columns)

static void read_rows(struct table_reader *r, size_t group, size_t column, const uint32_t *rows, size_t n)
{
    static int64_t numbers[ROWS_MAX];
    static double reals[ROWS_MAX];
    static struct table_text texts[ROWS_MAX];
    size_t bytes = 0;
    (void)!table_reader_ints(r, group, column, rows, n, numbers, NULL);
    (void)!table_reader_reals(r, group, column, rows, n, reals, NULL);
    if (table_reader_texts(r, group, column, rows, n, texts, NULL) == 0)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; texts[i].at && k < texts[i].n; k++)
                bytes += (unsigned char)texts[i].at[k];
    volatile size_t keep = bytes;
    (void)keep;
}

static void read_file(const char *path)
{
    struct table_file *f = NULL;
    if (table_file_open(path, columns, N, &f, NULL) < 0)
        return;
    struct table_reader *r = table_reader_new(f);
    for (size_t g = 0; r && g < f->n_groups && g < 8; g++)
        for (size_t c = 0; c < N; c++) {
            static const uint32_t some[] = {1, 2, 70, 1000};
            size_t n = 0;
            (void)table_file_may_have(f, g, c, -5, 5);
            (void)table_file_may_have_text(f, g, c, "instruction");
            while (n < 4 && some[n] < f->rows[g])
                n++;
            read_rows(r, g, c, some, n);
            if (f->rows[g] <= ROWS_MAX)
                read_rows(r, g, c, NULL, f->rows[g]);
            table_reader_forget(r);
        }
    table_reader_free(r);
    table_file_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    char path[64];
    if (file < 0 && (file = memfd_create("table", MFD_CLOEXEC)) < 0)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (ftruncate(file, 0) < 0 || pwrite(file, data, size, 0) != (ssize_t)size)
        abort();
    read_file(path);
    return 0;
}
