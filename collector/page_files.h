/*
 * The files of the web page, held in memory: read once, at the start. A browser asks for them by name; which there are
 * does not change, and nothing outside the folder can be named.
 */
#ifndef KYMO_COLLECTOR_PAGE_FILES_H
#define KYMO_COLLECTOR_PAGE_FILES_H

#include "collector/http.h"

#define PAGE_FILES_MAX 256
#define PAGE_FILE_MAX (16u << 20)

struct page_files;

/* Regular files in the folder and in its folder assets. No folder, or none there: a page that says how to make one. */
int page_files_read(const char *folder, struct page_files **ret, struct kymo_err *err) KYMO_MUST_CHECK;
bool page_files_have_page(const struct page_files *p);    /* is there an index.html? */
struct page_files *page_files_free(struct page_files *p); /* NULL is fine; returns NULL */
/* Answers with a file, "" being index.html; 404 when there is none. assets: it is in that folder. */
void page_files_answer(const struct page_files *p, struct http_request *q, const char *name, bool assets);
/* Where an installed program, or one in a build tree, has them: ../share/kymo/viewer beside it. */
int page_files_place(char ret[static 4096], struct kymo_err *err) KYMO_MUST_CHECK;

#endif
