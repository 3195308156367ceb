// Fresh memory comes from the system in pages, each of which costs 2 µs at its first use.

#include <sys/mman.h>

#include <cstdint>

namespace {

constexpr int64_t HUGE_PAGES = 1 << 22;  // bytes from which on they are asked for

// Ask for pages of 2 MB, where the system gives them on demand.
void ask_for_huge_pages(void* p, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    constexpr uintptr_t PAGE = 1 << 21;
    const uintptr_t begin = ((uintptr_t)p + PAGE - 1) & -PAGE, end = ((uintptr_t)p + bytes) & -PAGE;
    if (bytes >= HUGE_PAGES && begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace
