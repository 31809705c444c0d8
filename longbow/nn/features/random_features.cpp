#include "longbow/nn/features/random_features.h"

#include <ATen/ATen.h>

#include <cmath>

namespace longbow {

// With the signs of R's diagonal the Q of a normal matrix is uniform among the orthogonal ones.
Tensor drawn(const Draw& draw, const Random& random, const std::string& name) {
  const int64_t count = draw.matrices, d = draw.width, blocks = (draw.rows + d - 1) / d;
  const auto normal = random.normal({count, draw.rows, d}, name + " lengths").to(at::kDouble);
  const auto lengths = normal.norm(2, -1, true);
  auto directions = normal / lengths;
  if (draw.orthogonal) {
    const auto [q, r] =
        at::linalg_qr(random.normal({count, blocks, d, d}, name + " blocks").to(at::kDouble));
    const auto signs = at::where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).unsqueeze(-2);
    directions = (q * signs).transpose(-2, -1).flatten(1, 2).narrow(1, 0, draw.rows);
  }
  const double root = std::sqrt(static_cast<double>(d));
  return (draw.norms == RowNorms::fixed ? directions * root : directions * lengths).to(at::kFloat);
}

RandomMatrices::RandomMatrices(torch::nn::Module& owner, const Site& site, const std::string& name,
                               const Draw& draw)
    : owner_(&owner), draw_(draw), seed_(site.seed), name_(site.at(name).path) {
  auto all = draw;
  if (draw.pool > 0) all.matrices = draw.pool;
  auto start = drawn(all, Random::from_seed(seed_), name_);
  if (draw.pool > 0) {
    pool_ = owner.register_buffer("pool", start);
    start = start.narrow(0, 0, draw.matrices).clone();
  }
  now_ = owner.register_buffer(name, start);
}

Tensor RandomMatrices::operator*() const {
  return pool_.defined() && !owner_->is_training() ? pool_.narrow(0, 0, draw_.matrices) : now_;
}

void RandomMatrices::after_step(int64_t step) {
  if (!owner_->is_training() || draw_.redraw == 0 || (step + 1) % draw_.redraw != 0) return;
  const at::NoGradGuard no_grad;
  const auto random = Random::from_seed(seed_, step + 1);
  if (!pool_.defined()) {
    now_.copy_(drawn(draw_, random, name_));
    return;
  }
  const auto order = random.uniform({draw_.pool}, name_ + " pick").argsort();
  now_.copy_(pool_.index_select(0, order.narrow(0, 0, draw_.matrices).to(pool_.device())));
}

}  // namespace longbow
