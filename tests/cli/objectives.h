#pragma once
// A tiny run of every objective, for the commands that must work with all of them.
#include <ostream>
#include <string>
#include <vector>

namespace longbow::cli {

struct TinyObjective {
  std::string name, metric;
  bool larger_is_better, percent;
  std::string config;  // of a run, in flow style, without `attention`
};
inline void PrintTo(const TinyObjective& objective, std::ostream* out) {
  *out << objective.name;
}

inline const std::vector<TinyObjective>& tiny_objectives() {
  const std::string model = "width: 16, heads: 2, layers: 2";
  const std::string match =
      "task: match, data: {match: {train: 24, valid: 8, test: 8, length: 12, length_min: 7}}";
  const std::string markov =
      "task: markov, data: {markov: {train: 24, valid: 8, test: 8, length: 12}}";
  static const std::vector<TinyObjective> all = {
      {"classification", "accuracy", true, true,
       "task: recall, data: {recall: {train: 24, valid: 8, test: 8, pairs: 4, queries: 2}}, "
       "model: {" +
           model + "}"},
      {"pairs", "accuracy", true, true, match + ", model: {" + model + "}"},
      {"joint_pairs", "macro_f1", true, true,
       match + ", model: {" + model + ", pairs: joint, metric: macro_f1}"},
      {"class_token", "accuracy", true, true,
       match + ", model: {" + model + ", pooling: class_token}"},
      {"regression", "pearson", true, false,
       "task: count, data: {count: {train: 24, valid: 8, test: 8, length: 12}}, model: {" + model +
           "}"},
      {"span", "exact_match", true, true,
       "task: needle, data: {needle: {train: 24, valid: 8, test: 8, length: 12}}, model: {" +
           model + "}"},
      {"characters", "accuracy", true, true,
       "task: recall, objective: characters, data: {recall: {train: 24, valid: 8, test: 8, "
       "pairs: 6, queries: 4}}, model: {" +
           model + ", max_length: 32, hashes: 4, buckets: 64, first: softmax}"},
      {"perceiver", "accuracy", true, true,
       "task: recall, objective: perceiver, data: {recall: {train: 24, valid: 8, test: 8, pairs: "
       "4, queries: 2}}, model: {" +
           model + ", latents: 5, repeats: 3, fourier: {bands: 2}}"},
      {"causal_lm", "perplexity", false, false, markov + ", model: {" + model + "}"},
      {"perceiver_ar", "perplexity", false, false,
       markov + ", objective: perceiver_ar, model: {" + model + ", latents: 4}"},
      {"masked_lm", "perplexity", false, false,
       markov + ", objective: masked_lm, model: {" + model + "}"},
      {"replaced_tokens", "detector_loss", false, false,
       markov + ", objective: replaced_tokens, model: {" + model + ", generator: {layers: 1}}"},
      {"translation", "perplexity", false, false,
       "task: reverse, data: {reverse: {train: 24, valid: 8, test: 8, length: 9}}, model: "
       "{encoder: {width: 16, heads: 2, layers: 2}, decoder: {width: 16, heads: 2, layers: 2}}"},
      {"pretrained", "accuracy", true, true,
       "task: recall, data: {recall: {train: 24, valid: 8, test: 8, pairs: 4, queries: 2}}, "
       "model: {" +
           model + "}, pretrain: {objective: masked_lm, max_steps: 2}"},
  };
  return all;
}

}  // namespace longbow::cli
