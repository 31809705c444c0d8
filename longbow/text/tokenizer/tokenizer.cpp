#include "longbow/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "longbow/core/error.h"
#include "longbow/core/on_all_cores.h"
#include "longbow/core/utf8.h"
#include "longbow/text/components/pieces.h"
#include "longbow/text/tokenizer/word_cache.h"

namespace longbow {

// What one thread needs while it encodes; lent for a text and given back, so that buffers and the
// words that were seen stay.
struct Tokenizer::Workspace {
  AlignedText section;
  TextPieces pieces;
  ModelScratch scratch;
  WordCache cache;
  std::vector<WordToken> tokens;
  std::vector<uint32_t> code_points;    // before each byte of a text
  std::string repaired;                 // a text that was not well-formed
  std::vector<uint32_t> repaired_from;  // the byte of the text for each byte of it, and the end
};

struct Tokenizer::State {
  TokenizerParts parts;
  AddedTokens added;
  std::mutex mutex;
  std::vector<std::unique_ptr<Workspace>> idle;
};

class Tokenizer::Borrowed {
 public:
  explicit Borrowed(State& state) : state_(state) {
    const std::lock_guard lock(state_.mutex);
    if (state_.idle.empty()) return;
    workspace_ = std::move(state_.idle.back());
    state_.idle.pop_back();
  }
  ~Borrowed() {
    const std::lock_guard lock(state_.mutex);
    if (workspace_) state_.idle.push_back(std::move(workspace_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Workspace& operator*() {
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
    return *workspace_;
  }

 private:
  State& state_;
  std::unique_ptr<Workspace> workspace_;
};

namespace {

// How many code points come before each byte, and before the end; nothing for ASCII, where it is
// the byte itself.
void count_code_points(std::string_view text, std::vector<uint32_t>& out) {
  out.clear();
  if (std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; })) return;
  out.resize(text.size() + 1);
  uint32_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const size_t end = at + utf8_at(text, at).bytes;
    for (; at < end; ++at) out[at] = count;
  }
  out[text.size()] = count;
}

// A text with U+FFFD for each byte that is not well-formed UTF-8.
std::string_view repair(std::string_view text, std::string& repaired, std::vector<uint32_t>& from) {
  repaired.clear();
  from.clear();
  for (size_t at = 0; at < text.size();) {
    const auto next = utf8_at(text, at);
    append_utf8(repaired, next.code);
    // The end of a character is the beginning of the next one, whatever it was written with.
    from.resize(repaired.size(), static_cast<uint32_t>(at));
    at += next.bytes;
  }
  from.push_back(static_cast<uint32_t>(text.size()));
  return repaired;
}

void check_added(const TokenizerParts& parts) {
  for (const auto& token : parts.added_tokens) {
    const auto known = parts.model->vocabulary().id_of(token.content);
    if (known >= 0 && known != token.id)
      throw UserError(fmt::format("added token {} has the id {}, and {} in the vocabulary",
                                  quote(token.content), token.id, known));
  }
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) : state_(std::make_shared<State>()) {
  check_added(parts);
  state_->added = AddedTokens(parts.added_tokens, parts.normalizer.get());
  state_->parts = std::move(parts);
  state_->parts.added_tokens = state_->added.list();
}

const TokenizerParts& Tokenizer::parts() const {
  return state_->parts;
}
const AddedTokens& Tokenizer::added_tokens() const {
  return state_->added;
}

void Tokenizer::split(std::string_view text, AlignedText::Alignment alignment, bool with_special,
                      Workspace& work) const {
  if (text.size() >= std::numeric_limits<uint32_t>::max())
    throw UserError("a text of 4 GiB or more cannot be encoded at once");
  const auto& parts = state_->parts;
  const auto& added = state_->added;
  auto& pieces = work.pieces;
  pieces.clear();
  work.repaired_from.clear();
  if (find_invalid_utf8(text) != std::string_view::npos)
    text = repair(text, work.repaired, work.repaired_from);
  using Stage = AddedTokens::Stage;
  // A stretch between tokens of the original: normalized, then searched for the other tokens.
  const auto add_section = [&](size_t begin, size_t end, int32_t id) {
    auto& section = work.section;
    section.assign(text.substr(begin, end - begin), begin, alignment);
    if (id < 0 && parts.normalizer) parts.normalizer->apply(section);
    const auto base = static_cast<uint32_t>(pieces.text.view().size());
    const auto add_piece = [&](size_t from, size_t to, int32_t token) {
      pieces.list.push_back(
          {base + static_cast<uint32_t>(from), base + static_cast<uint32_t>(to), token});
    };
    const auto size = section.view().size();
    if (size == 0) return;
    if (id >= 0 || !added.has_any(Stage::normalized))
      add_piece(0, size, id);
    else
      added.each_stretch(section.view(), Stage::normalized, with_special, add_piece);
    pieces.text.append(section);
  };
  added.each_stretch(text, Stage::original, with_special, add_section);
  if (parts.pre_tokenizer) parts.pre_tokenizer->split(pieces);
}

std::span<const WordToken> Tokenizer::tokens_of(std::string_view word, Workspace& work) const {
  const auto known = work.cache.find(word);
  if (!known.empty()) return known;
  work.tokens.clear();
  state_->parts.model->tokenize(word, work.scratch, work.tokens);
  work.cache.add(word, work.tokens);
  return work.tokens;
}

void Tokenizer::ids_of(std::string_view text, std::vector<int32_t>& out,
                       EncodeOptions::SpecialText special) const {
  Borrowed borrowed(*state_);
  auto& work = *borrowed;
  const auto& pre_tokenizer = state_->parts.pre_tokenizer;
  const bool needs_alignment = pre_tokenizer && pre_tokenizer->needs_alignment();
  split(text, needs_alignment ? AlignedText::Alignment::kept : AlignedText::Alignment::none,
        special == EncodeOptions::SpecialText::token, work);
  for (const auto& piece : work.pieces.list) {
    if (piece.added >= 0)
      out.push_back(piece.added);
    else
      for (const auto& token : tokens_of(work.pieces.view(piece), work)) out.push_back(token.id);
  }
}

Encoding Tokenizer::encode_one(std::string_view text, const EncodeOptions& options) const {
  Borrowed borrowed(*state_);
  auto& work = *borrowed;
  split(text, AlignedText::Alignment::kept,
        options.special_text == EncodeOptions::SpecialText::token, work);
  work.code_points.clear();
  if (options.offsets == EncodeOptions::OffsetUnit::code_points)
    count_code_points(text, work.code_points);
  const auto place_of = [&](size_t begin, size_t end) -> TokenOffsets {
    auto span = work.pieces.text.origin(begin, end);
    if (!work.repaired_from.empty())
      span = {work.repaired_from[span.begin], work.repaired_from[span.end]};
    if (work.code_points.empty()) return {span.begin, span.end};
    return {work.code_points[span.begin], work.code_points[span.end]};
  };
  const auto& model = *state_->parts.model;
  const auto& list = work.pieces.list;
  Encoding out;
  out.reserve(list.size() + list.size() / 2);
  for (size_t word = 0; word < list.size(); ++word) {
    const auto& piece = list[word];
    const auto view = work.pieces.view(piece);
    const auto index = static_cast<int32_t>(word);
    if (piece.added >= 0) {
      out.add(piece.added, std::string(view), place_of(piece.begin, piece.end), index);
      continue;
    }
    for (const auto& token : tokens_of(view, work))
      out.add(token.id, std::string(model.text_of(token, view)),
              place_of(piece.begin + token.begin, piece.begin + token.end), index);
  }
  return out;
}

Encoding Tokenizer::finish(Encoding first, std::optional<Encoding> second,
                           const EncodeOptions& options) const {
  const auto& parts = state_->parts;
  const auto& truncation =
      options.truncation || !options.use_file_settings ? options.truncation : parts.truncation;
  const bool adds = options.add_special_tokens && parts.post_processor;
  if (second) second->set_type(1);
  if (truncation)
    shorten(first, second ? &*second : nullptr, *truncation,
            adds ? parts.post_processor->added_tokens(second.has_value()) : 0);
  std::vector<Encoding> texts;
  texts.push_back(std::move(first));
  if (second) texts.push_back(std::move(*second));
  if (parts.post_processor) parts.post_processor->process(texts, options.add_special_tokens);
  Encoding out;
  for (auto& text : texts) out.append(std::move(text));
  return out;
}

namespace {

const TokenPadding* padding_of(const TokenizerParts& parts, const EncodeOptions& options) {
  const auto& padding =
      options.padding || !options.use_file_settings ? options.padding : parts.padding;
  return padding ? &*padding : nullptr;
}

}  // namespace

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  auto out = finish(encode_one(text, options), {}, options);
  if (const auto* padding = padding_of(state_->parts, options)) pad_all({&out, 1}, *padding);
  return out;
}

Encoding Tokenizer::encode(std::string_view first, std::string_view second,
                           const EncodeOptions& options) const {
  auto out = finish(encode_one(first, options), encode_one(second, options), options);
  if (const auto* padding = padding_of(state_->parts, options)) pad_all({&out, 1}, *padding);
  return out;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string> texts,
                                              const EncodeOptions& options) const {
  constexpr size_t kShare = 16;  // texts that a thread takes at a time
  std::vector<Encoding> out(texts.size());
  const size_t shares = (texts.size() + kShare - 1) / kShare;
  on_all_cores(static_cast<int64_t>(shares), [&](int64_t share) {
    const size_t begin = static_cast<size_t>(share) * kShare;
    for (size_t i = begin; i < std::min(begin + kShare, texts.size()); ++i)
      out[i] = finish(encode_one(texts[i], options), {}, options);
  });
  if (const auto* padding = padding_of(state_->parts, options)) pad_all(out, *padding);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  const auto& parts = state_->parts;
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const auto* added = state_->added.find(id);
    if (!added && !parts.model->vocabulary().has(id)) continue;
    auto text = added ? state_->added.decoded_text(*added)
                      : std::string(parts.model->vocabulary().token_of(id));
    if (special == SpecialTokens::skipped && state_->added.is_special(text)) continue;
    tokens.push_back(std::move(text));
  }
  if (parts.decoder && !tokens.empty()) parts.decoder->decode(tokens);
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts.decoder) out += ' ';
    out += tokens[i];
  }
  return out;
}

int32_t Tokenizer::id_of(std::string_view token) const {
  const auto* added = state_->added.find(token);
  return added ? added->id : state_->parts.model->vocabulary().id_of(token);
}

std::string Tokenizer::token_of(int32_t id) const {
  const auto* added = state_->added.find(id);
  return added ? added->content : std::string(state_->parts.model->vocabulary().token_of(id));
}

size_t Tokenizer::size() const {
  const auto& added = state_->added.list();
  const int32_t above = added.empty() ? 0 : added.back().id + 1;
  return static_cast<size_t>(std::max(above, state_->parts.model->vocabulary().end()));
}

}  // namespace longbow
