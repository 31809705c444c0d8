#include "longbow/data/samples/saved_facts.h"

#include <filesystem>

#include "longbow/core/error.h"
#include "longbow/core/file.h"
#include "longbow/data/samples/text_codec.h"
#include "longbow/text/formats/tokenizer_json.h"

namespace longbow {
namespace {

// vocabulary.json holds only the symbols that the tokenizer does not.
void leave_out_tokens(std::vector<std::string>& symbols, const TextCodec* codec) {
  if (!codec) return;
  const auto own = std::min<int64_t>(codec->vocabulary(), std::ssize(symbols));
  symbols.erase(symbols.begin(), symbols.begin() + own);
}

std::shared_ptr<const TextCodec> codec_in(const std::string& file) {
  if (!std::filesystem::exists(file)) return {};
  return std::make_shared<TextCodec>(parse_tokenizer_json(read_file(file), file));
}

void put_tokens_first(std::vector<std::string>& symbols, const TextCodec* codec) {
  if (!codec) return;
  auto all = codec->symbols();
  all.insert(all.end(), symbols.begin(), symbols.end());
  symbols = std::move(all);
}

}  // namespace

void save_facts(const DataFacts& facts, const RunFolder& folder) {
  auto stored = facts;
  auto& splits = stored.splits;
  leave_out_tokens(splits.symbols, splits.codec.get());
  leave_out_tokens(splits.second_symbols, splits.second_codec.get());
  if (splits.codec) write_file(folder.tokenizer(), tokenizer_json(splits.codec->tokenizer()));
  if (splits.second_codec)
    write_file(folder.target_tokenizer(), tokenizer_json(splits.second_codec->tokenizer()));
  write_file(folder.vocabulary(), to_json(stored));
}

DataFacts load_facts(const RunFolder& folder) {
  const auto file = folder.vocabulary();
  auto facts = parse_facts(read_file(file), file);
  auto& splits = facts.splits;
  splits.codec = codec_in(folder.tokenizer());
  splits.second_codec = codec_in(folder.target_tokenizer());
  if (splits.codec && splits.codec->vocabulary() > splits.vocabulary)
    throw UserError(Place{folder.tokenizer(), 0}, "has more tokens than the model",
                    "it is not the tokenizer of this run");
  put_tokens_first(splits.symbols, splits.codec.get());
  put_tokens_first(splits.second_symbols, splits.second_codec.get());
  return facts;
}

}  // namespace longbow
