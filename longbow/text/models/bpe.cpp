#include "longbow/text/models/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "longbow/core/error.h"
#include "longbow/text/unicode/well_formed.h"

namespace longbow {
namespace {

// Pairs of ids and what they merge to, by hash.
class MergeTable {
 public:
  struct Merge {
    int32_t left = -1, right = -1;
    uint32_t rank = 0;
    int32_t merged = -1;
  };

  explicit MergeTable(size_t count) : slots_(std::bit_ceil(count * 2 + 1)) {}

  // A pair that is there already takes the later rank, as in Hugging Face's library.
  void add(const Merge& merge) {
    auto& slot = slots_[slot_of(merge.left, merge.right)];
    if (slot.left < 0) order_.push_back({merge.left, merge.right});
    slot = merge;
  }

  const Merge* find(int32_t left, int32_t right) const {
    const auto& slot = slots_[slot_of(left, right)];
    return slot.left < 0 ? nullptr : &slot;
  }

  std::vector<Merge> by_rank() const {
    std::vector<Merge> out;
    for (const auto& [left, right] : order_) out.push_back(*find(left, right));
    std::sort(out.begin(), out.end(),
              [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    return out;
  }

 private:
  size_t slot_of(int32_t left, int32_t right) const {
    const auto key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const size_t mask = slots_.size() - 1;
    size_t slot = (key * 0x9e3779b97f4a7c15ull >> 20) & mask;
    while (slots_[slot].left >= 0 && (slots_[slot].left != left || slots_[slot].right != right))
      slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Merge> slots_;
  std::vector<std::pair<int32_t, int32_t>> order_;
};

class Bpe : public TokenModel {
 public:
  Bpe(BpeOptions options, const std::vector<VocabularyEntry>& entries,
      const std::vector<BpeMerge>& merges)
      : options_(std::move(options)),
        prefix_(options_.continuing_subword_prefix.value_or("")),
        suffix_(options_.end_of_word_suffix.value_or("")),
        vocabulary_(entries),
        merges_(merges.size()) {
    if (options_.unk_token) unknown_ = vocabulary_.id_of(*options_.unk_token);
    if (options_.byte_fallback) bytes_ = byte_tokens(vocabulary_);
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      const auto merged =
          left + (right.size() >= prefix_.size() ? right.substr(prefix_.size()) : "");
      merges_.add({known(left), known(right), static_cast<uint32_t>(rank), known(merged)});
    }
  }

  void tokenize(std::string_view word, ModelScratch& scratch,
                std::vector<WordToken>& out) const override {
    if (options_.ignore_merges) {
      const auto id = vocabulary_.id_of(word);
      if (id >= 0) return out.push_back({id, 0, static_cast<uint32_t>(word.size())});
    }
    spell(word, scratch);
    merge(scratch);
    uint32_t begin = 0;
    for (const auto& symbol : scratch.symbols) {
      if (symbol.bytes == 0) continue;
      out.push_back({symbol.id, begin, begin + symbol.bytes});
      begin += symbol.bytes;
    }
  }

  const TokenVocabulary& vocabulary() const override { return vocabulary_; }

  WordAffixes affixes() const override {
    return {options_.continuing_subword_prefix.value_or(""),
            options_.end_of_word_suffix.value_or("")};
  }

  void write(JsonStream& out) const override {
    const auto text = [](const std::optional<std::string>& value) {
      return value ? &*value : nullptr;
    };
    out.begin_map();
    out.key("type");
    out.string("BPE");
    out.key("dropout");
    out.null();
    out.key("unk_token");
    out.optional(text(options_.unk_token));
    out.key("continuing_subword_prefix");
    out.optional(text(options_.continuing_subword_prefix));
    out.key("end_of_word_suffix");
    out.optional(text(options_.end_of_word_suffix));
    out.key("fuse_unk");
    out.boolean(options_.fuse_unk);
    out.key("byte_fallback");
    out.boolean(options_.byte_fallback);
    out.key("ignore_merges");
    out.boolean(options_.ignore_merges);
    write_vocabulary(out, vocabulary_);
    out.key("merges");
    out.begin_list();
    for (const auto& merge : merges_.by_rank()) {
      out.begin_list();
      out.string(vocabulary_.token_of(merge.left));
      out.string(vocabulary_.token_of(merge.right));
      out.end_list();
    }
    out.end_list();
    out.end_map();
  }

 private:
  using Symbol = ModelScratch::Symbol;
  using Candidate = ModelScratch::Candidate;

  int32_t known(const std::string& token) const {
    const auto id = vocabulary_.id_of(token);
    if (id < 0)
      throw UserError(fmt::format("BPE: {} of the merges is not in the vocabulary", quote(token)));
    return id;
  }

  static void add(std::vector<Symbol>& symbols, int32_t id, size_t bytes) {
    const auto at = static_cast<int32_t>(symbols.size());
    if (at > 0) symbols.back().next = at;
    symbols.push_back({id, at - 1, -1, static_cast<uint32_t>(bytes)});
  }

  int32_t id_of_character(std::string_view character, bool is_first, bool is_last,
                          std::string& key) const {
    const bool has_prefix = !is_first && !prefix_.empty();
    const bool has_suffix = is_last && !suffix_.empty();
    if (!has_prefix && !has_suffix) {
      key = character;
      return vocabulary_.id_of(character);
    }
    key.clear();
    if (has_prefix) key += prefix_;
    key += character;
    if (has_suffix) key += suffix_;
    return vocabulary_.id_of(key);
  }

  bool add_bytes(std::vector<Symbol>& symbols, std::string_view bytes) const {
    const auto id_of = [this](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (std::any_of(bytes.begin(), bytes.end(), [&](char c) { return id_of(c) < 0; })) return false;
    for (const char c : bytes) add(symbols, id_of(c), 1);
    return true;
  }

  // The word as single characters.
  void spell(std::string_view word, ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    symbols.clear();
    size_t unknown_bytes = 0;  // of an unknown token that is not written yet
    const auto flush = [&] {
      if (unknown_bytes > 0) add(symbols, unknown_, unknown_bytes);
      unknown_bytes = 0;
    };
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = unicode::bytes_of(unicode::byte_at(word, at));
      const auto character = word.substr(at, bytes);
      const auto id = id_of_character(character, at == 0, at + bytes == word.size(), scratch.key);
      at += bytes;
      if (id >= 0) {
        flush();
        add(symbols, id, bytes);
        continue;
      }
      if (options_.byte_fallback && add_bytes(symbols, scratch.key)) continue;
      if (!options_.unk_token) continue;
      if (unknown_ < 0)
        throw UserError("BPE: the unknown token " + quote(*options_.unk_token) +
                        " is not in the vocabulary");
      if (!options_.fuse_unk) flush();
      unknown_bytes += bytes;
    }
    flush();
  }

  void consider(ModelScratch& scratch, int32_t at) const {
    const auto& symbol = scratch.symbols[static_cast<size_t>(at)];
    if (symbol.next < 0) return;
    const auto* merge =
        merges_.find(symbol.id, scratch.symbols[static_cast<size_t>(symbol.next)].id);
    if (!merge) return;
    scratch.candidates.push_back({merge->rank, at, merge->merged});
  }

  static bool comes_later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void merge(ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    auto& queue = scratch.candidates;
    queue.clear();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(scratch, static_cast<int32_t>(i));
    std::make_heap(queue.begin(), queue.end(), comes_later);
    const auto push = [&](int32_t at) {
      const size_t before = queue.size();
      if (at >= 0) consider(scratch, at);
      if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), comes_later);
    };
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), comes_later);
      const auto best = queue.back();
      queue.pop_back();
      auto& left = symbols[static_cast<size_t>(best.at)];
      if (left.bytes == 0 || left.next < 0) continue;
      auto& right = symbols[static_cast<size_t>(left.next)];
      // Either side may have been merged since.
      const auto* merge = merges_.find(left.id, right.id);
      if (!merge || merge->merged != best.merged_id) continue;
      left.id = best.merged_id;
      left.bytes += right.bytes;
      right.bytes = 0;
      left.next = right.next;
      if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.at;
      push(left.previous);
      push(best.at);
    }
  }

  BpeOptions options_;
  std::string prefix_, suffix_;  // of parts of a word; empty when there are none
  TokenVocabulary vocabulary_;
  MergeTable merges_;
  int32_t unknown_ = -1;
  std::vector<int32_t> bytes_;
};

}  // namespace

TokenModelPtr make_bpe(BpeOptions options, const std::vector<VocabularyEntry>& entries,
                       const std::vector<BpeMerge>& merges) {
  return std::make_shared<Bpe>(std::move(options), entries, merges);
}

}  // namespace longbow
