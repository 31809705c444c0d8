#pragma once
// Classes of characters as Hugging Face's tokenizers draw them: Rust's predicates on `char`, the
// rules of BERT and `\w` of Rust's regular expressions. They differ from those of C and of PCRE2.

namespace longbow::unicode {

bool is_white_space(char32_t code);      // White_Space: also U+0085, U+00A0, U+3000; not U+200B
bool is_letter(char32_t code);           // L*
bool is_numeric(char32_t code);          // Nd, Nl, No
bool is_word(char32_t code);             // \w: letters, marks, Nd, Nl, Pc, joiners
bool is_punctuation(char32_t code);      // P* and ASCII's symbols, such as $ and ^
bool is_control(char32_t code);          // Cc, Cf, Co but for tab, line feed, carriage return
bool is_cjk(char32_t code);              // ideographs, which BERT makes words of their own
bool is_mark(char32_t code);             // M*
bool is_nonspacing_mark(char32_t code);  // Mn
int combining_class(char32_t code);      // 0 for all but marks

// One or two characters: U+0130 becomes i and a dot above.
struct Lowercase {
  char32_t first;
  char32_t second = 0;
};
Lowercase lowercase(char32_t code);

}  // namespace longbow::unicode
