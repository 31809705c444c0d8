#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

std::string text_of(bool flag) {
  return flag ? "true" : "false";
}

// One case has no keys of its own: they are its normalised queries.
void check_local(const Case& c) {
  const bool shared = c.flag("shared_qk"), rotary = c.flag("rotary");
  check_core(c, "local",
             "{window: " + std::to_string(c.integer("window")) +
                 ", back: " + std::to_string(c.integer("look_backward")) +
                 ", ahead: " + std::to_string(c.integer("look_forward")) +
                 ", exact_window: " + text_of(c.flag("exact")) + ", shared_qk: " + text_of(shared) +
                 ", shifted_angles: " + text_of(rotary) + "}",
             {}, {.rotary = rotary ? std::optional(Rotary()) : std::nullopt});
}

// Neighbours around the ends of the sequence.
void check_chunks(const Case& c) {
  check_projected(c, "local",
                  "{wrap: true, window: " + std::to_string(c.integer("chunk")) +
                      ", back: " + std::to_string(c.integer("before")) +
                      ", ahead: " + std::to_string(c.integer("after")) + "}");
}

const Reader local("local", {check_local});
const Reader chunks("reformer-local", {check_chunks});

}  // namespace
}  // namespace longbow::parity
