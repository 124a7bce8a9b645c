#include "collector/page_files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/sibling.h"

struct file {
    char *name;
    bool assets;
    uint8_t *data;
    char etag[20];
    struct http_file http;
};

struct page_files {
    struct file files[PAGE_FILES_MAX];
    size_t n;
};

static const struct {
    const char *suffix, *type;
} types[] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
    {".map", "application/json"},
    {".txt", "text/plain; charset=utf-8"},
};

static const char absent[] = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>kymo</title><h1>kymo</h1>"
                             "<p>The viewer is not installed with this program. The API is at <a "
                             "href=\"/api/v1/profiles\">/api/v1</a>. In the source tree <code>cmake --build build "
                             "--target viewer</code> makes the viewer (Node 18 or later), <code>cmake --install "
                             "build</code> installs it, and <code>tools/quickstart.sh --serve</code> does all of it."
                             "</html>";

static const char *type_of(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t k = strlen(types[i].suffix);
        if (n > k && !strcmp(name + n - k, types[i].suffix))
            return types[i].type;
    }
    return NULL;
}

static int add(struct page_files *p, const char *folder, const char *name, bool assets, struct kymo_err *err)
{
    const char *type = type_of(name);
    if (!type || *name == '.')
        return 0;
    if (p->n == PAGE_FILES_MAX)
        return kymo_err_set(err, -E2BIG, "%s: more than %d files", folder, PAGE_FILES_MAX);
    struct file *f = &p->files[p->n];
    char *path KYMO_FREE = kymo_asprintf("%s/%s", folder, name);
    size_t size;
    uint8_t digest[KYMO_SHA256_SIZE] = {0};
    f->name = kymo_strdup(name);
    p->n++;
    if (!path || !f->name)
        return kymo_err_set(err, -ENOMEM, "no memory for the page");
    int r = kymo_file_read_all(path, PAGE_FILE_MAX, &f->data, &size, err);
    if (r == 0)
        r = kymo_hash_sha256(f->data, size, digest);
    if (r < 0)
        return r;
    (void)snprintf(f->etag, sizeof f->etag, "\"%02x%02x%02x%02x%02x%02x%02x%02x\"", digest[0], digest[1], digest[2],
                   digest[3], digest[4], digest[5], digest[6], digest[7]);
    f->assets = assets;
    f->http = (struct http_file){type, f->etag, f->data, size};
    return 0;
}

static int add_folder(struct page_files *p, const char *folder, bool assets, struct kymo_err *err)
{
    DIR *d = opendir(folder);
    int r = 0;
    if (!d)
        return errno == ENOENT || errno == ENOTDIR ? 0 : kymo_err_set(err, -errno, "%s: %s", folder, strerror(errno));
    for (const struct dirent *e; r == 0 && (e = readdir(d));)
        r = add(p, folder, e->d_name, assets, err);
    (void)closedir(d);
    return r;
}

static void files_freep(struct page_files **p)
{
    page_files_free(*p);
}

int page_files_read(const char *folder, struct page_files **ret, struct kymo_err *err)
{
    struct page_files *p KYMO_CLEANUP(files_freep) = KYMO_NEW(struct page_files);
    char *assets KYMO_FREE = kymo_asprintf("%s/assets", folder);
    if (!p || !assets)
        return kymo_err_set(err, -ENOMEM, "no memory for the page");
    int r = add_folder(p, folder, false, err);
    if (r == 0)
        r = add_folder(p, assets, true, err);
    if (r == 0)
        *ret = KYMO_TAKE(p);
    return r;
}

struct page_files *page_files_free(struct page_files *p)
{
    for (size_t i = 0; p && i < p->n; i++) {
        kymo_free(p->files[i].name);
        kymo_free(p->files[i].data);
    }
    kymo_free(p);
    return NULL;
}

static const struct file *find(const struct page_files *p, const char *name, bool assets)
{
    for (size_t i = 0; p && i < p->n; i++)
        if (p->files[i].assets == assets && !strcmp(p->files[i].name, name))
            return &p->files[i];
    return NULL;
}

bool page_files_have_page(const struct page_files *p)
{
    return find(p, "index.html", false);
}

void page_files_answer(const struct page_files *p, struct http_request *q, const char *name, bool assets)
{
    static const struct http_file none = {"text/html; charset=utf-8", "\"none\"", absent, sizeof absent - 1};
    const struct file *f = find(p, *name ? name : "index.html", assets);
    if (f)
        http_answer_file(q, &f->http);
    else if (*name)
        http_answer_error(q, 404, "not_found", "there is nothing at this path");
    else
        http_answer_file(q, &none);
}

int page_files_place(char ret[static 4096], struct kymo_err *err)
{
    char own[PATH_MAX];
    int r = sibling_path("x", own, err);
    if (r < 0)
        return r;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(own, '/');
        if (slash)
            *slash = '\0';
    }
    int n = snprintf(ret, 4096, "%s/share/kymo/viewer", own);
    return n < 4096 ? 0 : kymo_err_set(err, -ENAMETOOLONG, "the program's path is too long");
}
