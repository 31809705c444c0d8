#include "longbow/metrics/bleu.h"

#include <lzma.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "longbow/core/file.h"
#include "longbow/core/version.h"
#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;
using Streams = std::vector<Lines>;

template <class E>
E named(const std::string& name) {
  const auto names = names_of(E{});
  return static_cast<E>(std::ranges::find(names, name) - names.begin());
}

BleuOptions options_of(const json& given) {
  BleuOptions options;
  options.tokenizer = named<BleuTokenizer>(given.value("tokenize", "13a"));
  options.lowercase = given.value("lowercase", false);
  options.smoothing = named<BleuSmoothing>(given.value("smooth_method", "exp"));
  if (given.contains("smooth_value") && !given.at("smooth_value").is_null())
    options.smooth_value = given.at("smooth_value").get<double>();
  options.max_order = given.value("max_ngram_order", size_t{4});
  return options;
}

// sacreBLEU's signature, with our name and version.
std::string signature_of(const json& given) {
  const auto text = given.get<std::string>();
  return "BLEU|" + text.substr(0, text.find("version:")) + "version:longbow-" + version();
}

TEST(Bleu, OfACorpusIsThatOfSacreBleu) {
  const auto all = vectors("sacrebleu.json");
  ASSERT_GE(all.at("bleu").size(), 270u);
  for (const auto& given : all.at("bleu")) {
    SCOPED_TRACE(given.at("group").get<std::string>() + " " + given.at("options").dump());
    const auto& group = all.at("groups").at(given.at("group").get<std::string>());
    const auto options = options_of(given.at("options"));
    const auto references = group.at("references").get<Streams>();
    const auto bleu = corpus_bleu(group.at("hypotheses").get<Lines>(), references, options);
    expect_close(bleu.score, given.at("score"));
    expect_close(bleu.brevity_penalty, given.at("bp"));
    EXPECT_EQ(bleu.statistics.hypothesis_length, given.at("sys_len").get<int64_t>());
    EXPECT_EQ(bleu.statistics.reference_length, given.at("ref_len").get<int64_t>());
    // sacreBLEU reports the counts of add-k after smoothing.
    const bool adds = options.smoothing == BleuSmoothing::add_k && bleu.statistics.matches[0] > 0;
    ASSERT_EQ(bleu.precisions.size(), given.at("precisions").size());
    for (size_t n = 0; n < bleu.precisions.size(); ++n) {
      const double added = adds && n > 0 ? options.smooth_value.value_or(1) : 0;
      EXPECT_EQ(static_cast<double>(bleu.statistics.matches[n]) + added,
                given.at("counts")[n].get<double>());
      EXPECT_EQ(static_cast<double>(bleu.statistics.totals[n]) + added,
                given.at("totals")[n].get<double>());
      expect_close(bleu.precisions[n], given.at("precisions")[n]);
    }
    EXPECT_EQ(bleu_signature(options, references.size()), signature_of(given.at("signature")));
    EXPECT_EQ(to_text(bleu), given.at("text").get<std::string>());
  }
}

TEST(Bleu, OfASentenceIsThatOfSacreBleu) {
  const auto all = vectors("sacrebleu.json");
  ASSERT_FALSE(all.at("bleu_sentence").empty());
  for (const auto& given : all.at("bleu_sentence")) {
    const auto& group = all.at("groups").at(given.at("group").get<std::string>());
    auto options = options_of(given);
    options.effective_order = given.at("effective_order").get<bool>();
    const auto references = group.at("references").get<Streams>();
    const auto statistics =
        bleu_statistics(group.at("hypotheses").get<Lines>(), references, options);
    for (size_t i = 0; i < statistics.size(); ++i)
      expect_close(bleu_of(statistics[i], options).score, given.at("scores")[i]);
    EXPECT_EQ(bleu_signature(options, references.size()), signature_of(given.at("signature")));
  }
}

TEST(Bleu, RefusesWhatItCannotScore) {
  EXPECT_THROW(bleu_statistics(Lines{"a", "b"}, Streams{{"a"}}), std::invalid_argument);
  EXPECT_THROW(bleu_statistics(Lines{"a"}, Streams{}), std::invalid_argument);
  EXPECT_THROW(bleu_of({}, {.max_order = 0}), std::invalid_argument);
  EXPECT_THROW(bleu_of({}, {.max_order = kMostBleuOrder + 1}), std::invalid_argument);
}

TEST(Bleu, SignatureNamesTheTrialsOfATest) {
  EXPECT_EQ(
      bleu_signature({}, 2, "bs:1000|seed:12345"),
      "BLEU|nrefs:2|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:longbow-" +
          version());
}

std::string unpacked(const std::string& packed) {
  std::string text(size_t{8} << 20, '\0');
  uint64_t memory = uint64_t{1} << 28;
  size_t in = 0, out = 0;
  const auto status = lzma_stream_buffer_decode(
      &memory, 0, nullptr, reinterpret_cast<const uint8_t*>(packed.data()), &in, packed.size(),
      reinterpret_cast<uint8_t*>(text.data()), &out, text.size());
  EXPECT_EQ(status, LZMA_OK);
  text.resize(out);
  return text;
}

// Rows of quoted CSV.
std::vector<Lines> rows_of(const std::string& csv) {
  std::vector<Lines> rows = {{""}};
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    auto& field = rows.back().back();
    if (csv[i] == '"' && quoted && i + 1 < csv.size() && csv[i + 1] == '"')
      field += csv[++i];
    else if (csv[i] == '"')
      quoted = !quoted;
    else if (csv[i] == ',' && !quoted)
      rows.back().emplace_back();
    else if (csv[i] == '\n' && !quoted)
      rows.push_back({""});
    else if (csv[i] != '\r' || quoted)
      field += csv[i];
  }
  if (rows.back() == Lines{""}) rows.pop_back();
  return rows;
}

struct System {
  const char* name;
  double score;
  std::array<int64_t, 4> matches, totals;
};

TEST(Bleu, OfWholeSystemsHasTheKnownCounts) {
  const auto folder =
      std::filesystem::path(LONGBOW_SOURCE_DIR) / "../shared/data/wmt14_en_de/system_outputs";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const System systems[] = {
      {"transformer", 18.6813, {32586, 14823, 7755, 4243}, {64699, 61696, 58695, 55698}},
      {"linformer_k32", 14.1539, {29556, 11729, 5562, 2768}, {64984, 61981, 58979, 55981}},
      {"linformer_k64", 15.1758, {30187, 12414, 6031, 3106}, {64911, 61908, 58906, 55910}}};
  for (const auto& system : systems) {
    SCOPED_TRACE(system.name);
    const auto rows =
        rows_of(unpacked(read_file((folder / (std::string(system.name) + ".csv.xz")).string())));
    ASSERT_EQ(rows.size(), 3004u);
    ASSERT_EQ(rows[0], (Lines{"input", "candidate", "reference"}));
    Lines hypotheses;
    Streams references(1);
    for (const auto& row : std::span(rows).subspan(1)) {
      hypotheses.push_back(row.at(1));
      references[0].push_back(row.at(2));
    }
    const auto bleu = corpus_bleu(hypotheses, references);
    EXPECT_NEAR(bleu.score, system.score, 5e-5);
    EXPECT_TRUE(std::ranges::equal(system.matches, std::span(bleu.statistics.matches).first(4)));
    EXPECT_TRUE(std::ranges::equal(system.totals, std::span(bleu.statistics.totals).first(4)));
    EXPECT_EQ(bleu.statistics.reference_length, 62688);
    EXPECT_EQ(bleu.brevity_penalty, 1);
  }
}

}  // namespace
}  // namespace longbow::metrics
