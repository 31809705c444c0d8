#pragma once
// Characters and words as Python's `str` knows them: the scripts that published scores come from
// are written in it.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longbow::metrics {

bool is_space(char32_t code);
bool is_punctuation(char32_t code);        // Unicode category P
bool is_symbol(char32_t code);             // S
bool is_number(char32_t code);             // N
bool is_word(char32_t code);               // a letter, a number or _
bool is_ascii_punctuation(char32_t code);  // !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~

// A byte that is not UTF-8 becomes U+FFFD.
std::u32string code_points(std::string_view text);
std::string to_utf8(std::u32string_view codes);

std::string lowercase(std::string_view text);
std::vector<std::string_view> split(std::string_view text);  // at white space
std::string_view trimmed_right(std::string_view text);
std::string_view trimmed(std::string_view text);

// Words as numbers: equal words have equal numbers, in all lists.
std::vector<std::vector<uint32_t>> number_words(
    std::span<const std::vector<std::string_view>> lists);

}  // namespace longbow::metrics
