#pragma once
// The loop of decoding: one token more for all lanes, again and again. What a step reads and writes
// stays where it is, so that a GPU can replay it.
#include "longbow/models/decoder/continuation.h"
#include "longbow/tensors/replay.h"

namespace longbow {

// Makes texts of logits, one token of each lane at a time. It works on the device alone and does
// the same at every step.
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;
  // Of logits [L, V]; step [1] int64 is the number of tokens before.
  virtual void take(const Tensor& logits, const Tensor& step) = 0;
  virtual Tensor tokens() const = 0;  // [L, 1], the last ones
  // [L]: which lanes they continue; undefined = their own.
  virtual Tensor lanes() const { return {}; }
  virtual bool over() const = 0;  // nothing is left to write; waits for the device
};

// At most `steps` tokens, from a state and the logits of the first ones. With `waits` it ends when
// the writer is over, which is asked behind every token, or every eighth that is replayed.
void write_tokens(const Continuation& model, State state, const Tensor& logits, int64_t steps,
                  bool waits, TokenWriter& writer, Replay& replay);

}  // namespace longbow
