#include "tests/attention/parity.h"

namespace longbow::parity {
namespace {

void check_local(const Case& c) {
  check_core(c, "local",
             "{window: " + std::to_string(c.integer("window")) +
                 ", back: " + std::to_string(c.integer("look_backward")) +
                 ", ahead: " + std::to_string(c.integer("look_forward")) +
                 ", exact_window: " + (c.flag("exact") ? "true}" : "false}"),
             {}, {.rotary = c.flag("rotary") ? std::optional(Rotary()) : std::nullopt});
}

const Reader local("local", {check_local});
const SetAside bidir_rotary("local-bidir-rotary",
                            "it turns queries by look_forward * window more than keys at the same "
                            "position: the angle is not that of the distance");
const SetAside shared_qk("local-shared-qk",
                         "keys shared with queries and an own-token penalty are Reformer's");

}  // namespace
}  // namespace longbow::parity
