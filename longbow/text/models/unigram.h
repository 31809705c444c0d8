#pragma once
// Unigram: of all ways to cut a word into pieces, the one with the highest sum of scores.
#include <optional>
#include <utility>

#include "longbow/text/models/model.h"

namespace longbow {

struct UnigramOptions {
  std::optional<size_t> unk_id;
  bool byte_fallback = false;
  std::vector<int32_t> hidden;  // ids, ascending, that no text is cut into; not in tokenizer.json
};

using UnigramPiece = std::pair<std::string, double>;  // with its logarithmic probability

// The id of a piece is its index. UserError without a place: a piece that is there twice, a score
// that is not finite, an unk_id beyond the pieces.
TokenModelPtr make_unigram(const UnigramOptions& options, const std::vector<UnigramPiece>& pieces);

}  // namespace longbow
