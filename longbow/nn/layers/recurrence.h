#pragma once
// Layers that run over the tokens in one direction with a state of constant size, and the mixer
// that is made of one: causal by nature, and bidirectional as the sum of both directions.
#include <vector>

#include "longbow/nn/contract/mixer.h"
#include "longbow/nn/layers/rms_norm.h"
#include "longbow/nn/layers/short_convolution.h"

namespace longbow {

class RecurrentLayer : public Part {
 public:
  virtual void open(State& state, int64_t lanes) const = 0;
  // x [B, T, C], the next tokens of each lane. Padded ones (mask.keep is false) change no state,
  // before the real ones or behind them.
  virtual Tensor extend(const Tensor& x, State& state, const Context& context) const = 0;
  // Of whole sequences, without a state before them; `both`: and what it is from the last token to
  // the first, added.
  virtual Tensor run(const Tensor& x, const Context& context, bool both) const;
};

// Without a causal mask a layer also runs over the tokens from the last to the first, and both
// outputs are added: with the parameters of the first direction, or with its own.
enum class Backward { shared, own };
constexpr std::array<std::string_view, 2> names_of(Backward) {
  return {"shared", "own"};
}
constexpr auto kBackwardMeaning =
    "parameters of the direction from the last token to the first, which is added without a causal "
    "mask: those of the other direction, or its own (then not causal)";

Promises recurrent_promises(Backward backward);
// Registers the layers as `forward` and, where it is not null, `backward`.
Mixer recurrent_mixer(const std::shared_ptr<RecurrentLayer>& forward,
                      const std::shared_ptr<RecurrentLayer>& backward);
template <class Layer, class Config>
Mixer recurrent_mixer(const Site& site, const Config& config) {
  return recurrent_mixer(std::make_shared<Layer>(site.at("forward"), config),
                         config.backward == Backward::own
                             ? std::make_shared<Layer>(site.at("backward"), config)
                             : nullptr);
}

// What the heads of a recurrence are made of and what becomes of what they read,
//   y = W_o (RMSNorm(o) * SiLU(W_g x)),   the norm head by head.
struct HeadsConfig {
  int64_t key_width = 0, value_width = 0;  // of a head
  int64_t convolution = 0;                 // taps over q, k and v, followed by SiLU; 0 = none
  bool output_gate = true;                 // SiLU(W_g x)
  bool unit = false;                       // q and k are made of length 1 before they are read
  double norm_epsilon = 1e-5;
};

class RecurrentHeads : public RecurrentLayer {
 public:
  RecurrentHeads(const Site& site, const HeadsConfig& config);
  void open(State& state, int64_t lanes) const override;
  Tensor extend(const Tensor& x, State& state, const Context& context) const override;
  Tensor run(const Tensor& x, const Context& context, bool both) const override;

 protected:
  // What tokens set, [B, H, T, …], float32 at least: decays, rates.
  using Gates = std::vector<Tensor>;
  virtual Gates gates(const Tensor& x, const Context& context) const = 0;
  // q, k [B, H, T, Dk] and v [B, H, T, Dv], the keys of padded tokens zero. The sums, lane "sums"
  // [B, H, Dk, Dv], become those after these tokens, undefined = there are none before; `reversed`:
  // from the last token to the first. Returns [B, H, T, Dv].
  virtual Tensor read(const Heads& heads, const Gates& gates, Tensor& sums, const Context& context,
                      bool reversed) const = 0;
  // From the first token to the last of `forth`, and from the last to the first of `back`, without
  // sums before; both are the same heads where no convolution has a direction.
  struct BothReads {
    Tensor forth, back;
  };
  virtual BothReads read_both(const Heads& forth, const Heads& back, const Gates& gates,
                              const Context& context) const;
  int64_t heads_, key_width_, value_width_;

 private:
  struct Projected {
    std::vector<Tensor> rows;  // q, k, v or, where a convolution follows, all beside each other
    Tensor gate;               // undefined = none
  };
  Projected projected(const Tensor& x) const;
  // `unit`: q and k are of length 1 already.
  Heads by_head(const std::vector<Tensor>& rows, const Tensor& x, const Context& context,
                bool unit) const;
  // What of the convolved rows the convolution makes of length 1.
  UnitParts unit_of(const Tensor& rows) const;
  BothReads convolved(const Tensor& rows, const Gates& gates, const Tensor& x,
                      const Context& context, bool both) const;
  std::vector<Tensor> split(const Tensor& rows) const;
  Tensor written(const Tensor& forth, const Tensor& back, const Tensor& gate) const;

  std::shared_ptr<Linear> query_, key_, value_, gate_, output_;
  std::shared_ptr<ShortConvolution> convolution_;
  std::shared_ptr<RmsNorm> norm_;
  bool unit_;
};

}  // namespace longbow
