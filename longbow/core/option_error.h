#pragma once
// Mistakes that show only when several options are seen together, or an option and the model around
// it. Whoever finds one knows the key; whoever has read the config knows where that key is written.
#include <functional>
#include <string>

#include "longbow/core/config.h"
#include "longbow/core/error.h"

namespace longbow {

class OptionError : public UserError {
 public:
  // `key` is an option, or a path to one ("sparse.group"), or empty for the options as a whole.
  // `what` goes on after the key: "is 64, but the longest sequence has 32 tokens".
  OptionError(const std::string& key, const std::string& what, const std::string& hint);
  // The same mistake in `options`, which are those of `owner`: at the line of the key, or of the
  // last part of its path that is written.
  OptionError in(const Node& options, const std::string& owner) const;
  const std::string& key() const { return key_; }

 private:
  OptionError(const OptionError& mistake, const Place& place, const std::string& owner);
  std::string key_, what_, hint_;
};

// OptionError unless the option fits.
void require_option(bool fits, const std::string& key, const std::string& what,
                    const std::string& hint);

// Runs `check`, and gives what it throws its place in `options`.
void check_options(const Node& options, const std::string& owner,
                   const std::function<void()>& check);

}  // namespace longbow
