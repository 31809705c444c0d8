#pragma once
// A text and the pieces it has been split into so far. A piece is a word to the model, or an added
// token that has been found already.
#include <cstdint>
#include <string_view>
#include <vector>

#include "longbow/text/unicode/aligned_text.h"

namespace longbow {

struct TextPiece {
  uint32_t begin = 0, end = 0;  // bytes of the text
  int32_t added = -1;           // the id of an added token, or -1
};

// What becomes of a delimiter between two pieces.
enum class DelimiterBehavior {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

class TextPieces {
 public:
  AlignedText text;
  std::vector<TextPiece> list;

  void clear() {
    text.clear();
    list.clear();
  }
  std::string_view view(const TextPiece& piece) const {
    return text.view().substr(piece.begin, piece.end - piece.begin);
  }
  // Whether it begins where the original does; needs alignment.
  bool is_first(const TextPiece& piece) const {
    return text.origin(piece.begin, piece.end).begin == 0;
  }
  // Every piece but added tokens, in turn: split(text of the piece, emit), where emit(begin, end)
  // takes bounds within the piece. Empty pieces are left out.
  template <class Split>
  void split(const Split& split_one) {
    spare_.clear();
    for (const auto& piece : list) {
      if (piece.added >= 0) {
        spare_.push_back(piece);
        continue;
      }
      split_one(view(piece), [&](size_t begin, size_t end) {
        if (begin < end)
          spare_.push_back({static_cast<uint32_t>(piece.begin + begin),
                            static_cast<uint32_t>(piece.begin + end), -1});
      });
    }
    list.swap(spare_);
  }
  // Rewrites every piece but added tokens: write(rewrite, piece, emit), where emit() ends a piece
  // behind what is written. What is left of the piece is kept.
  template <class Write>
  void rewrite(const Write& write_one) {
    spare_.clear();
    TextRewrite writer(text);
    for (const auto& piece : list) {
      if (piece.begin == piece.end) continue;
      writer.drop_to(piece.begin);
      auto begin = static_cast<uint32_t>(writer.size());
      const auto emit = [&] {
        const auto end = static_cast<uint32_t>(writer.size());
        if (begin < end) spare_.push_back({begin, end, piece.added});
        begin = end;
      };
      if (piece.added < 0) write_one(writer, piece, emit);
      writer.keep_to(piece.end);
      emit();
    }
    writer.drop_to(text.view().size());
    writer.finish();
    list.swap(spare_);
  }

 private:
  std::vector<TextPiece> spare_;
};

// Stretches of a text in turn, each a delimiter or not, as pieces.
class DelimiterSplit {
 public:
  void clear() { stretches_.clear(); }
  void add(size_t begin, size_t end, bool is_delimiter) {
    stretches_.push_back({begin, end, is_delimiter});
  }
  template <class Emit>
  void emit(DelimiterBehavior behavior, const Emit& emit_one) {
    merge(behavior);
    for (const auto& next : stretches_)
      if (!(behavior == DelimiterBehavior::removed && next.is_delimiter))
        emit_one(next.begin, next.end);
  }

 private:
  struct Stretch {
    size_t begin, end;
    bool is_delimiter;
  };
  void merge(DelimiterBehavior behavior);

  std::vector<Stretch> stretches_;
};

}  // namespace longbow
