#include "longbow/predict/writing.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <numeric>

#include "longbow/core/seed.h"
#include "longbow/predict/batches.h"
#include "longbow/tasks/prediction.h"

namespace longbow::predict {
namespace {

// Options that one method only has a use for.
DecodingMethod method_for(const std::string& option, DecodingMethod otherwise) {
  if (option == "beams" || option == "early_stopping") return DecodingMethod::beam;
  if (option == "temperature" || option == "top_k" || option == "top_p")
    return DecodingMethod::sample;
  return otherwise;
}

// What is written, without the end, where it has one.
std::span<const int64_t> text_tokens(const std::vector<int64_t>& tokens, const Texts& texts) {
  const bool ended = texts.end > 0 && !tokens.empty() && tokens.back() == texts.end;
  return std::span(tokens).first(tokens.size() - (ended ? 1 : 0));
}

// The texts of one lane, best first.
std::vector<Written> written_by(const Decoded& decoded, int64_t lane, const Texts& texts) {
  std::vector<Written> all;
  for (int64_t n = 0; n < decoded.lengths.size(1); ++n) {
    const auto length = decoded.lengths[lane][n].item<int64_t>();
    if (length == 0) continue;  // the search found fewer
    const auto row = decoded.tokens[lane][n].narrow(0, 0, length).cpu().contiguous();
    const auto* ids = row.const_data_ptr<int64_t>();
    auto& one = all.emplace_back(Written{.tokens = {ids, ids + length},
                                         .text = {},
                                         .score = decoded.scores[lane][n].item<double>()});
    one.text = texts.written.text(text_tokens(one.tokens, texts));
  }
  return all;
}

std::vector<std::vector<Written>> write_all(Task& task, const Dataset& data,
                                            const SamplerConfig& sampler, const DecodingConfig& how,
                                            uint64_t seed) {
  const auto texts = task.texts();
  std::vector<std::vector<Written>> all(static_cast<size_t>(data.size()));
  for_batches(task, data, sampler, seed,
              [&](const Batch& batch, const std::vector<int64_t>& indices, const Random& random) {
                const auto decoded = task.write(batch, how, random);
                for (size_t lane = 0; lane < indices.size(); ++lane)
                  all[static_cast<size_t>(indices[lane])] =
                      written_by(decoded, static_cast<int64_t>(lane), texts);
              });
  return all;
}

// What `written` adds to the text of a prompt. A tokenizer writes a token as the one before it asks
// for: behind a blank, as the rest of a word, or as that of a character.
std::string added_text(const Sample& prompt, const std::string& shown, const Written& written,
                       const Texts& texts) {
  std::vector<int64_t> ids;
  for (const auto id : prompt.tokens)
    if (id != texts.begin && id != texts.frame.first) ids.push_back(id);
  const auto before = shown.empty() ? "" : texts.written.text(ids);
  const auto tokens = text_tokens(written.tokens, texts);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  const auto whole = texts.written.text(ids);
  return whole.starts_with(before) ? whole.substr(before.size()) : written.text;
}

void check_prompt_room(const Prompts& prompts, const DecodingConfig& how, int64_t holds) {
  for (int64_t i = 0; i < prompts.data->size(); ++i)
    if (const auto room = holds - prompts.data->length(i) + 1; how.max_length > room)
      throw UserError(prompts.places[static_cast<size_t>(i)],
                      fmt::format("{} tokens to generate after {}, but there is room for {}",
                                  how.max_length, prompts.data->length(i), room),
                      "lower --max-length, or train with a larger model.max_length");
}

// A first token, as often as training samples begin with it.
int64_t drawn_beginning(const DataFacts& facts, Stream draw) {
  const auto& counts = facts.first_counts;
  auto left = draw.below(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  size_t which = 0;
  while (left >= counts[which]) left -= counts[which++];
  return facts.first_tokens[which];
}

}  // namespace

DecodingConfig decoding_with(const Task& task, const Node& options) {
  auto tree = written(task.decoding());
  for (const auto& [option, value] : options.entries) tree[option] = value;
  const auto how = read<DecodingConfig>(tree, "decoding");
  for (const auto& [option, value] : options.entries)
    if (const auto wanted = method_for(option, how.method); wanted != how.method)
      throw UserError(value.place, "the method " + name_of(how.method) + " has no use for it",
                      "add --method " + name_of(wanted));
  check_decoding(how, tree);
  return how;
}

Prompts prompts_of(const Task& task, const std::vector<Line>& lines) {
  Prompts prompts = {.data = inputs_of(task, lines), .texts = {}, .places = {}};
  for (const auto& line : lines) {
    prompts.texts.push_back(line.text);
    prompts.places.push_back(line.place);
  }
  return prompts;
}

Prompts beginnings(const Task& task, const DataFacts& facts, int64_t count, uint64_t seed,
                   const Place& place) {
  const auto texts = task.texts();
  const bool draws = texts.begin == 0 && texts.frame.first == 0;
  if (draws && facts.first_tokens.empty())
    throw UserError(place, "it is not known what a text begins with", "give a prompt");
  const Stream stream(seed, "generate");
  // The first token of a plain text may be a part of a character, which is not shown alone.
  const bool shows = draws && !texts.written.codec();
  std::vector<Sample> samples;
  Prompts prompts;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id =
        draws ? drawn_beginning(facts, stream.at(static_cast<uint64_t>(i))) : texts.begin;
    Sample sample;  // without tokens where inputs_of puts those of the frame
    if (id > 0) sample.tokens = {static_cast<int32_t>(id)};
    samples.push_back(std::move(sample));
    prompts.texts.push_back(shows ? texts.written.text({&id, 1}) : "");
    prompts.places.push_back(place);
  }
  prompts.data = longbow::inputs_of(task, std::move(samples));
  return prompts;
}

std::vector<std::vector<Written>> continued(Task& task, const Prompts& prompts,
                                            const DecodingConfig& how, int64_t batch_size,
                                            uint64_t seed) {
  const auto texts = task.texts();
  check_prompt_room(prompts, how, texts.holds);
  // Prompts of one length only: the room behind a prompt is what its own length leaves.
  const SamplerConfig sampler = {.batch_size = batch_size, .bucket = 1};
  auto all = write_all(task, *prompts.data, sampler, how, seed);
  if (!texts.written.codec()) return all;
  for (size_t i = 0; i < all.size(); ++i)
    for (auto& one : all[i])
      one.text =
          added_text(prompts.data->get(static_cast<int64_t>(i)), prompts.texts[i], one, texts);
  return all;
}

std::vector<std::vector<Written>> translated(Task& task, const std::vector<Line>& sources,
                                             const SamplerConfig& trained,
                                             const DecodingConfig& how, int64_t batch_size,
                                             uint64_t seed) {
  auto sampler = as_trained(trained, task.texts().longest);
  sampler.batch_size = batch_size;
  return write_all(task, *inputs_of(task, sources), sampler, how, seed);
}

void check_translation_room(const Task& task, const DecodingConfig& how, const Place& place) {
  if (const auto holds = task.texts().holds; how.max_length > holds)
    throw UserError(place,
                    fmt::format("{} tokens, but the decoder holds {}", how.max_length, holds),
                    "lower it, or train with a larger model.decoder.max_length");
}

}  // namespace longbow::predict
