#pragma once
// Post-processors of tokenizer.json: BertProcessing, ByteLevel, RobertaProcessing, Sequence,
// TemplateProcessing.
#include "longbow/text/components/component.h"
#include "longbow/text/components/post_processor.h"

namespace longbow {

// nullptr for null. An unknown type, field or value is a UserError at its place.
PostProcessorPtr read_post_processor(const Node& node);

// The one with a file of its own.
PostProcessorPtr read_template_processing(ComponentReader& reader);

struct NamedToken {
  std::string text;
  int32_t id = 0;
};
int32_t read_token_id(ComponentReader& reader, const Node& node);

}  // namespace longbow
