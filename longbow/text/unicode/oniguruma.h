#pragma once
#include <string>

namespace longbow {

// A regular expression of Oniguruma, in its own syntax, which is nearly Ruby's, as one of PCRE2.
// Rewritten is what PCRE2 would take for something else: classes within classes and their
// intersections, \w, \s, \h, \v, [:word:], [:space:], scripts, intervals and (?m). Other classes in
// [: :] are PCRE2's. UserError without a place for what has no counterpart.
std::string pcre2_of_oniguruma(const std::string& pattern);

}  // namespace longbow
