#include "driver-iface/hook/hook_real.h"

#include <dlfcn.h>
#include <string.h>

#include "driver-iface/hook/hook_internal.h"

#define PASS ((void *)-1) /* of hook_dlsym_choose: jump to the real dlsym */

typedef void *dlsym_fn(void *handle, const char *name);

#define EXPORTED __attribute__((visibility("default")))

/* Only their addresses matter here; hook_nrt.c and the stubs below define them. */
#define X(name) EXPORTED void *hook_address_##name(void) __asm__(#name);
HOOK_WRAPPED_MAP(X)
#undef X
#define X(name, index) EXPORTED void *hook_address_##name(void) __asm__(#name);
HOOK_WATCHED_MAP(X)
#undef X

static const char *const names[HOOK_REAL_COUNT] = {
#define X(name) #name,
    HOOK_WRAPPED_MAP(X)
#undef X
#define X(name, index) #name,
        HOOK_WATCHED_MAP(X)
#undef X
};

#define X(name, index) _Static_assert(HOOK_REAL_##name == (index), "the stub of " #name " passes this number");
HOOK_WATCHED_MAP(X)
#undef X

static void *reals[HOOK_REAL_COUNT];
static void *library; /* dlopen handle of the runtime, kept: its functions stay where they are */
dlsym_fn *hook_dlsym_real;

void *hook_dlsym_choose(void *handle, const char *name, const void *caller);
void *hook_watch_enter(uint32_t index);

static void *own(size_t i)
{
    static void *(*const functions[HOOK_REAL_COUNT])(void) = {
#define X(name) hook_address_##name,
        HOOK_WRAPPED_MAP(X)
#undef X
#define X(name, index) hook_address_##name,
            HOOK_WATCHED_MAP(X)
#undef X
    };
    void *p;

    memcpy(&p, &functions[i], sizeof p);
    return p;
}

/* No lock and no flag: every thread, and a malloc that calls dlsym while dlvsym calls malloc, finds the same address.
 */
static dlsym_fn *real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    dlsym_fn *f = __atomic_load_n(&hook_dlsym_real, __ATOMIC_ACQUIRE);

    for (size_t i = 0; !f && i < sizeof versions / sizeof *versions; i++) {
        void *p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);

        memcpy(&f, &p, sizeof f);
    }
    __atomic_store_n(&hook_dlsym_real, f, __ATOMIC_RELEASE);
    return f;
}

const char *hook_real_name(enum hook_real_index i)
{
    return names[i];
}

static int index_of(const char *name)
{
    if (name[0] != 'n' || name[1] != 'r' || name[2] != 't')
        return -1;
    for (size_t i = 0; i < HOOK_REAL_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return -1;
}

/* Keeps the library of a function that is known to be the runtime's. It may live in a namespace of its own (dlmopen):
 * that of the handle by which it was found; NULL: ours. */
static void keep_library(void *function, void *found_by)
{
    void *expected = NULL, *handle;
    Lmid_t space = LM_ID_BASE;
    Dl_info info;

    if (__atomic_load_n(&library, __ATOMIC_ACQUIRE) || !dladdr(function, &info) || !info.dli_fname)
        return;
    if (found_by)
        (void)dlinfo(found_by, RTLD_DI_LMID, &space);
    handle = dlmopen(space, info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle && !__atomic_compare_exchange_n(&library, &expected, handle, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        (void)dlclose(handle);
}

/* Linked programs have the runtime behind us in the global scope; what only a dlopen'ed module links is not there, but
 * is loaded under its soname. */
static void *find(const char *name)
{
    dlsym_fn *f = real_dlsym();
    void *handle = __atomic_load_n(&library, __ATOMIC_ACQUIRE), *p = NULL;

    if (!f)
        return NULL;
    if (handle)
        return f(handle, name);
    p = f(RTLD_NEXT, name);
    if (p)
        return p;
    handle = dlopen("libnrt.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    p = f(handle, name);
    if (p)
        keep_library(p, NULL);
    (void)dlclose(handle);
    return p;
}

void *hook_real(enum hook_real_index i)
{
    void *p = __atomic_load_n(&reals[i], __ATOMIC_ACQUIRE);

    if (p)
        return p;
    p = find(names[i]);
    if (!p || p == own(i))
        return NULL;
    keep_library(p, NULL);
    __atomic_store_n(&reals[i], p, __ATOMIC_RELEASE);
    return p;
}

bool hook_real_find(const char *name, void *slot)
{
    void *p = find(name);

    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

/* RTLD_DEFAULT ends with what was opened together with the caller, unseen by others: an extension that brings the
 * runtime along finds it so. */
static void *find_beside(const void *caller, const char *name)
{
    dlsym_fn *f = real_dlsym();
    Dl_info info;
    void *handle, *p;

    if (!dladdr(caller, &info) || !info.dli_fname || !info.dli_fname[0])
        return NULL;
    handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    p = f(handle, name);
    (void)dlclose(handle);
    return p;
}

/* The runtime's function as the caller would have found it without this library; NULL: not at all. */
static void *find_for(void *handle, int i, const void *caller)
{
    dlsym_fn *f = real_dlsym();
    void *p = f(handle, names[i]);

    if (p != own((size_t)i))
        return p;
    p = f(RTLD_NEXT, names[i]);
    if (!p && handle == RTLD_DEFAULT)
        p = find_beside(caller, names[i]);
    if (p && p != own((size_t)i))
        return p;
    return f(RTLD_NEXT, names[i]); /* so that dlerror tells what the caller expects */
}

/*
 * Our function in place of the runtime's, or PASS. Of two runtimes in a process the first is served; the other one is
 * handed out as it is. NULL: the name is found nowhere but in this library, so without it the caller would find
 * nothing. RTLD_NEXT depends on who asks and is passed on, unless there is nothing to be found.
 */
void *hook_dlsym_choose(void *handle, const char *name, const void *caller)
{
    void *p, *known = NULL;
    int i = name ? index_of(name) : -1;

    if (!real_dlsym() || i < 0)
        return PASS;
    if (handle == RTLD_NEXT)
        return find(name) ? PASS : real_dlsym()(RTLD_NEXT, name);
    p = find_for(handle, i, caller);
    if (!p)
        return NULL;
    if (hook_is_disabled())
        return p;
    if (__atomic_compare_exchange_n(&reals[i], &known, p, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        keep_library(p, handle == RTLD_DEFAULT ? NULL : handle);
    else if (known != p)
        return p;
    return own((size_t)i);
}

/* Where a watched function goes on when its runtime lacks it: a program that needed it would not have been started. */
static int absent(void)
{
    return HOOK_NRT_INVALID;
}

void *hook_watch_enter(uint32_t index)
{
    int (*const fallback)(void) = absent;
    void *p = hook_real((enum hook_real_index)index);

    if (p)
        hook_foreign_call((enum hook_real_index)index);
    else
        memcpy(&p, &fallback, sizeof p);
    return p;
}

/*
 * The stubs keep every register that can hold an argument, so that the real function sees its caller's, and RTLD_NEXT
 * in dlsym sees its caller's return address.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n.type dlsym, @function\n"
        "dlsym:\n"
        "  .cfi_startproc\n  endbr64\n"
        "  push %rdi\n  .cfi_adjust_cfa_offset 8\n"
        "  push %rsi\n  .cfi_adjust_cfa_offset 8\n"
        "  sub $8, %rsp\n  .cfi_adjust_cfa_offset 8\n"
        "  mov 24(%rsp), %rdx\n"
        "  call hook_dlsym_choose\n"
        "  add $8, %rsp\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rsi\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rdi\n  .cfi_adjust_cfa_offset -8\n"
        "  cmp $-1, %rax\n  je 1f\n  ret\n"
        "1: mov hook_dlsym_real(%rip), %rax\n"
        "  jmp *%rax\n"
        "  .cfi_endproc\n.size dlsym, .-dlsym\n"
        ".hidden hook_dlsym_real\n.hidden hook_dlsym_choose\n.hidden hook_watch_enter\n"
        ".type hook_watch, @function\n"
        "hook_watch:\n" /* the number lies on the stack, below the return address */
        "  .cfi_startproc\n  .cfi_adjust_cfa_offset 8\n"
        "  push %rdi\n  .cfi_adjust_cfa_offset 8\n  push %rsi\n  .cfi_adjust_cfa_offset 8\n"
        "  push %rdx\n  .cfi_adjust_cfa_offset 8\n  push %rcx\n  .cfi_adjust_cfa_offset 8\n"
        "  push %r8\n  .cfi_adjust_cfa_offset 8\n  push %r9\n  .cfi_adjust_cfa_offset 8\n"
        "  mov 48(%rsp), %edi\n"
        "  call hook_watch_enter\n"
        "  pop %r9\n  .cfi_adjust_cfa_offset -8\n  pop %r8\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rcx\n  .cfi_adjust_cfa_offset -8\n  pop %rdx\n  .cfi_adjust_cfa_offset -8\n"
        "  pop %rsi\n  .cfi_adjust_cfa_offset -8\n  pop %rdi\n  .cfi_adjust_cfa_offset -8\n"
        "  add $8, %rsp\n  .cfi_adjust_cfa_offset -8\n"
        "  jmp *%rax\n"
        "  .cfi_endproc\n.size hook_watch, .-hook_watch\n");
#define X(name, index)                                                                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                                        \
            "  .cfi_startproc\n  endbr64\n  push $" #index "\n  .cfi_adjust_cfa_offset 8\n  jmp hook_watch\n"          \
            "  .cfi_endproc\n.size " #name ", .-" #name "\n");
HOOK_WATCHED_MAP(X)
#undef X
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n.type dlsym, %function\n"
        "dlsym:\n"
        "  .cfi_startproc\n"
        "  stp x29, x30, [sp, #-32]!\n  .cfi_def_cfa_offset 32\n  .cfi_offset 29, -32\n  .cfi_offset 30, -24\n"
        "  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n"
        "  mov x2, x30\n"
        "  bl hook_dlsym_choose\n"
        "  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n"
        "  ldp x29, x30, [sp], #32\n  .cfi_def_cfa_offset 0\n"
        "  cmn x16, #1\n  b.eq 1f\n"
        "  mov x0, x16\n  ret\n"
        "1: adrp x16, hook_dlsym_real\n  ldr x16, [x16, :lo12:hook_dlsym_real]\n"
        "  br x16\n"
        "  .cfi_endproc\n.size dlsym, .-dlsym\n"
        ".hidden hook_dlsym_real\n.hidden hook_dlsym_choose\n.hidden hook_watch_enter\n"
        ".type hook_watch, %function\n"
        "hook_watch:\n"
        "  .cfi_startproc\n"
        "  stp x29, x30, [sp, #-80]!\n  .cfi_def_cfa_offset 80\n  .cfi_offset 29, -80\n  .cfi_offset 30, -72\n"
        "  mov x29, sp\n"
        "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n"
        "  mov w0, w16\n"
        "  bl hook_watch_enter\n"
        "  mov x16, x0\n"
        "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n"
        "  ldp x29, x30, [sp], #80\n  .cfi_def_cfa_offset 0\n"
        "  br x16\n"
        "  .cfi_endproc\n.size hook_watch, .-hook_watch\n");
#define X(name, index)                                                                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n"                                        \
            "  mov w16, #" #index "\n  b hook_watch\n.size " #name ", .-" #name "\n");
HOOK_WATCHED_MAP(X)
#undef X
#else
_Static_assert(sizeof(void *) == 0, "Neuron hosts are x86-64 or aarch64");
#endif
