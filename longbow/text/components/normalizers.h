#pragma once
// Normalizers of tokenizer.json: BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt,
// Precompiled, Prepend, Replace, Sequence, Strip, StripAccents.
#include "longbow/text/components/component.h"
#include "longbow/text/components/normalizer.h"

namespace longbow {

// nullptr for null. An unknown type, field or value is a UserError at its place.
NormalizerPtr read_normalizer(const Node& node);

// Those with a file of their own.
NormalizerPtr read_bert_normalizer(ComponentReader& reader);
NormalizerPtr read_precompiled(ComponentReader& reader);

// Steps that several normalizers take.
void lowercase(AlignedText& text);
bool is_ascii(std::string_view text);

}  // namespace longbow
