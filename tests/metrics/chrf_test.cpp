#include "longbow/metrics/chrf.h"

#include <stdexcept>

#include "longbow/core/version.h"
#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;
using Streams = std::vector<Lines>;

ChrfOptions options_of(const json& given) {
  ChrfOptions options;
  options.char_order = given.value("char_order", options.char_order);
  options.word_order = given.value("word_order", options.word_order);
  options.beta = given.value("beta", options.beta);
  options.lowercase = given.value("lowercase", false);
  options.whitespace = given.value("whitespace", false);
  options.eps_smoothing = given.value("eps_smoothing", false);
  return options;
}

TEST(Chrf, IsThatOfSacreBleu) {
  const auto all = vectors("sacrebleu.json");
  ASSERT_GE(all.at("chrf").size(), 64u);
  for (const auto& given : all.at("chrf")) {
    SCOPED_TRACE(given.at("group").get<std::string>() + " " + given.at("options").dump());
    const auto& group = all.at("groups").at(given.at("group").get<std::string>());
    const auto options = options_of(given.at("options"));
    const auto hypotheses = group.at("hypotheses").get<Lines>();
    const auto references = group.at("references").get<Streams>();
    expect_close(corpus_chrf(hypotheses, references, options), given.at("score"));
    const auto statistics = chrf_statistics(hypotheses, references, options);
    ASSERT_EQ(statistics.size(), given.at("sentences").size());
    for (size_t i = 0; i < statistics.size(); ++i)
      expect_close(chrf_of(statistics[i], options), given.at("sentences")[i]);
    const auto signature = given.at("signature").get<std::string>();
    EXPECT_EQ(chrf_signature(options, references.size()),
              chrf_name(options) + "|" + signature.substr(0, signature.find("version:")) +
                  "version:longbow-" + version());
  }
}

TEST(Chrf, IsNamedAfterItsOptions) {
  EXPECT_EQ(chrf_name({}), "chrF2");
  EXPECT_EQ(chrf_name({.word_order = 2, .beta = 3}), "chrF3++");
}

TEST(Chrf, RefusesWhatItCannotScore) {
  EXPECT_THROW(chrf_statistics(Lines{"a", "b"}, Streams{{"a"}}), std::invalid_argument);
  EXPECT_THROW(chrf_statistics(Lines{"a"}, Streams{}), std::invalid_argument);
  EXPECT_THROW(chrf_of({}, {.char_order = 0}), std::invalid_argument);
  EXPECT_THROW(chrf_of({}, {.char_order = kMostChrfOrders, .word_order = 1}),
               std::invalid_argument);
}

}  // namespace
}  // namespace longbow::metrics
