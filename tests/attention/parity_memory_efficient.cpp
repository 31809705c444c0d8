#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

// In the chunks of the case, and in chunks that divide no length.
void check_memory_efficient(const Case& c) {
  check_core(c, "memory_efficient",
             "{query_chunk: " + std::to_string(c.integer("query_chunk", 256)) +
                 ", key_chunk: " + std::to_string(c.integer("key_chunk", 1024)) + "}",
             {}, {.every_query = true});
}
void check_other_chunks(const Case& c) {
  check_core(c, "memory_efficient", "{query_chunk: 5, key_chunk: 7}", {}, {.every_query = true});
}

const Reader reader("memefficient", {check_memory_efficient, check_other_chunks});

}  // namespace
}  // namespace longbow::parity
