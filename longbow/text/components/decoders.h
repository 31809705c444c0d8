#pragma once
// Decoders of tokenizer.json: BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace,
// Sequence, Strip, WordPiece.
#include "longbow/text/components/component.h"
#include "longbow/text/components/decoder.h"

namespace longbow {

// nullptr for null. An unknown type, field or value is a UserError at its place.
TokenDecoderPtr read_decoder(const Node& node);

}  // namespace longbow
