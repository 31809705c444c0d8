#include "longbow/models/decoder/token_loop.h"

#include <ATen/ATen.h>

namespace longbow {

void write_tokens(const Continuation& model, State state, const Tensor& logits, int64_t steps,
                  int64_t look, TokenWriter& writer, Replay& replay) {
  auto step = at::zeros({1}, logits.options().dtype(at::kLong));
  writer.take(logits, step);
  if (replay.captures()) state.settle();
  for (int64_t i = 1; i < steps; ++i) {
    if (look > 0 && (i - 1) % look == 0 && writer.over()) return;
    replay.run("token", [&] {
      State now = state;
      if (const auto lanes = writer.lanes(); lanes.defined()) now.reorder(lanes);
      const auto next = model.next(writer.tokens(), {}, now);
      step.add_(1);
      writer.take(next, step);
      if (replay.captures())
        state.put(now);
      else
        state = std::move(now);
    });
  }
}

}  // namespace longbow
