// How many threads BLAS and OpenMP may use in this process. See fork.h.
//
// The variables (OMP_NUM_THREADS etc.) are read when a library is loaded, which in a forked worker
// happened long ago. The libraries' own functions change the number at any time. They are looked up
// by name in every loaded library, since R loads most of them with local scope.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/mst_features.h"
#include "fork/fork.h"

#if MST_HAVE_DL_ITERATE
#include <link.h>
#endif

typedef void (*set_int)(int);
typedef int (*get_int)(void);

static const char *const setters[] = {
    "openblas_set_num_threads", "omp_set_num_threads", "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads"};
static const char *const getters[] = {
    "openblas_get_num_threads", "omp_get_max_threads", "MKL_Get_Max_Threads",
    "bli_thread_get_num_threads"};

struct search {
  int set;  // number to set, 0 to ask
  int most; // largest number of any library
};

// A function pointer can't be cast from void * in ISO C; POSIX says that the
// bytes are the same.
static void apply(void *library, struct search *search) {
  for (size_t i = 0; i < sizeof setters / sizeof setters[0]; i++) {
    void *symbol = dlsym(library, search->set > 0 ? setters[i] : getters[i]);
    if (symbol == NULL) continue;
    if (search->set > 0) {
      set_int set;
      memcpy(&set, &symbol, sizeof set);
      set(search->set);
    } else {
      get_int get;
      memcpy(&get, &symbol, sizeof get);
      const int n = get();
      if (n > search->most) search->most = n;
    }
  }
}

#if MST_HAVE_DL_ITERATE
static int each_library(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') return 0;
  if (strstr(info->dlpi_name, "blas") == NULL &&
      strstr(info->dlpi_name, "omp") == NULL &&
      strstr(info->dlpi_name, "mkl") == NULL &&
      strstr(info->dlpi_name, "blis") == NULL) {
    return 0;
  }
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return 0;
  apply(library, data);
  (void)dlclose(library);
  return 0;
}

static void apply_all(struct search *search) {
  (void)dl_iterate_phdr(each_library, search);
}
#else
static void apply_all(struct search *search) { apply(RTLD_DEFAULT, search); }
#endif

void mst_threads_set(int threads) {
  struct search search = {.set = threads, .most = 0};
  apply_all(&search);
}

int mst_threads_get(void) {
  struct search search = {.set = 0, .most = 0};
  apply_all(&search);
  return search.most;
}
