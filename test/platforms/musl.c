/*
 * What Debian's libstdc++ and libgcc require of glibc and musl lacks. Built as ld-linux-x86-64.so.2, which both name as a
 * library, it lets them run under musl: Debian has musl, but not these libraries for it.
 */
typedef unsigned long size;
long getrandom(void *, size, unsigned);
size strftime_l(char *, size, const char *, const void *, void *);

unsigned arc4random(void) {
  unsigned random = 0;
  getrandom(&random, sizeof random, 0);
  return random;
}
size __strftime_l(char *out, size limit, const char *format, const void *time, void *locale) {
  return strftime_l(out, limit, format, time, locale);
}
/* The end of a thread frees nothing. */
int __cxa_thread_atexit_impl(void (*end)(void *), void *object, void *library) { return 0; }
char __libc_single_threaded = 0;
/* Not found: libgcc then asks dl_iterate_phdr. */
int _dl_find_object(void *address, void *result) { return -1; }
int __cpu_indicator_init(void) { return 0; }
unsigned __cpu_model[4] = {0};
