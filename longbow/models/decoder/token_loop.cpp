#include "longbow/models/decoder/token_loop.h"

#include <ATen/ATen.h>

namespace longbow {

void write_tokens(const Continuation& model, State state, const Tensor& logits, int64_t steps,
                  bool waits, TokenWriter& writer, Replay& replay) {
  constexpr int64_t kReplayed = 8;
  const int64_t look = replay.captures() ? kReplayed : 1;
  auto step = at::zeros({1}, logits.options().dtype(at::kLong));
  writer.take(logits, step);
  const auto write = [&](State& now) {
    if (const auto lanes = writer.lanes(); lanes.defined()) now.reorder(lanes);
    const auto next = model.next(writer.tokens(), {}, now);
    step.add_(1);
    writer.take(next, step);
  };
  if (replay.captures()) state.settle();
  for (int64_t i = 1; i < steps; ++i) {
    if (waits && (i - 1) % look == 0 && writer.over()) return;
    replay.run("token", [&] {
      if (!replay.captures()) return write(state);
      State now = state;
      write(now);
      state.put(now);
    });
  }
}

}  // namespace longbow
