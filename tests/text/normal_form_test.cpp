#include "longbow/text/unicode/normal_form.h"

#include <gtest/gtest.h>

#include "longbow/core/utf8.h"

namespace longbow::unicode {
namespace {

struct Written {
  std::string text;
  std::vector<int> changes;
};

Written written(std::string_view text, NormalForm form) {
  std::vector<ChangedCharacter> changed;
  normalize(text, form, changed);
  Written out;
  for (const auto& next : changed) {
    append_utf8(out.text, next.code);
    out.changes.push_back(next.change);
  }
  return out;
}

}  // namespace

TEST(NormalFormText, DecomposesAndCountsWhatIsAdded) {
  const auto got = written("a\u00e9", NormalForm::d);
  EXPECT_EQ(got.text, "ae\u0301");
  EXPECT_EQ(got.changes, (std::vector<int>{0, 0, 1}));
}

TEST(NormalFormText, ComposesAndCountsWhatIsGone) {
  const auto got = written("e\u0301x", NormalForm::c);
  EXPECT_EQ(got.text, "\u00e9x");
  EXPECT_EQ(got.changes, (std::vector<int>{-1, 0}));
}

TEST(NormalFormText, HangulGoesBothWays) {
  EXPECT_EQ(written("\ud55c", NormalForm::d).text, "\u1112\u1161\u11ab");
  EXPECT_EQ(written("\u1112\u1161\u11ab", NormalForm::c).text, "\ud55c");
  EXPECT_EQ(written("\uac00\u11a8", NormalForm::c).text, "\uac01");  // LV and T
  EXPECT_EQ(written("\uac01\u11a8", NormalForm::c).text, "\uac01\u11a8");
}

TEST(NormalFormText, AMarkGoesBelowTheOneThatIsComposed) {
  EXPECT_EQ(written("\u00e9\u0327", NormalForm::c).text, "\u0229\u0301");
  EXPECT_EQ(written("e\u0301\u0327", NormalForm::d).text, "e\u0327\u0301");
}

TEST(NormalFormText, AMarkOfTheSameClassBlocks) {
  EXPECT_EQ(written("a\u0315\u0300", NormalForm::c).text, "\u00e0\u0315");
  EXPECT_EQ(written("a\u05ae\u0300\u0301", NormalForm::c).text, "\u00e0\u05ae\u0301");
}

TEST(NormalFormText, CompatibilityFormsSpellOut) {
  EXPECT_EQ(written("\ufb01\u2460\uff21", NormalForm::kc).text, "fi1A");
  EXPECT_EQ(written("\ufb01", NormalForm::kc).changes, (std::vector<int>{0, 1}));
  EXPECT_EQ(written("\ufb01", NormalForm::c).text, "\ufb01");
  EXPECT_EQ(written("\ufdfa", NormalForm::kd).changes.size(), 18u);
}

TEST(NormalFormText, CharactersOutsideTheRunsAreLeftAlone) {
  EXPECT_EQ(written("plain \u4e2d\ud55c \u00e9", NormalForm::c).text, "plain \u4e2d\ud55c \u00e9");
  EXPECT_EQ(written("\u0301a", NormalForm::c).text, "\u0301a");
}

}  // namespace longbow::unicode
