#include "longbow/metrics/bleu_tokenizer.h"

#include <algorithm>

#include "tests/metrics/vectors.h"

namespace longbow::metrics {
namespace {

using Lines = std::vector<std::string>;

BleuTokenizer tokenizer_of(const std::string& name) {
  const auto names = names_of(BleuTokenizer{});
  const auto found = std::ranges::find(names, name);
  EXPECT_NE(found, names.end()) << name;
  return static_cast<BleuTokenizer>(found - names.begin());
}

TEST(BleuTokenizer, SplitsAsSacreBleu) {
  const auto all = vectors("sacrebleu.json");
  size_t compared = 0;
  for (const auto& [key, want] : all.at("tokenized").items()) {
    SCOPED_TRACE(key);
    const auto slash = key.find('/');
    const auto tokenizer = tokenizer_of(key.substr(slash + 1));
    const auto& group = all.at("groups").at(key.substr(0, slash));
    const auto compare = [&](const nlohmann::json& texts, const nlohmann::json& tokens) {
      for (size_t i = 0; i < texts.size(); ++i, ++compared)
        EXPECT_EQ(tokenize(texts[i].get<std::string>(), tokenizer), tokens[i].get<std::string>());
    };
    compare(group.at("hypotheses"), want.at("hypotheses"));
    for (size_t r = 0; r < group.at("references").size(); ++r)
      compare(group.at("references")[r], want.at("references")[r]);
  }
  EXPECT_GE(compared, 298u);
}

TEST(BleuTokenizer, KeepsNumbersWholeAndUndoesEscapes) {
  EXPECT_EQ(tokenize("1,000.5 is 3-4, or a-b.", BleuTokenizer::v13a),
            "1,000.5 is 3 - 4 , or a-b .");
  EXPECT_EQ(tokenize("&quot;x&quot; &amp;lt; y<skipped>", BleuTokenizer::v13a), "\" x \" < y");
  EXPECT_EQ(tokenize("wait... what?!", BleuTokenizer::v13a), "wait . . . what ? !");
  EXPECT_EQ(tokenize("end-\nof\nline", BleuTokenizer::v13a), "endof line");
}

TEST(BleuTokenizer, FindsTextThatIsTokenizedAlready) {
  EXPECT_TRUE(look_tokenized(Lines{"a well @-@ known fact", "b"}));
  EXPECT_TRUE(look_tokenized(Lines{"it &apos;s", "b", "c"}));
  EXPECT_TRUE(look_tokenized(Lines{"one .", "two .", "three", ""}));
  EXPECT_FALSE(look_tokenized(Lines{"one .", "two.", "three."}));
  EXPECT_FALSE(look_tokenized(Lines{"one.", "a @ b"}));
  EXPECT_FALSE(look_tokenized(Lines{"", ""}));
}

}  // namespace
}  // namespace longbow::metrics
