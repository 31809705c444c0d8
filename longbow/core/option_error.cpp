#include "longbow/core/option_error.h"

namespace longbow {

OptionError::OptionError(const std::string& key, const std::string& what, const std::string& hint)
    : UserError(key.empty() ? what : key + " " + what, hint), key_(key), what_(what), hint_(hint) {}

OptionError::OptionError(const OptionError& mistake, const Place& place, const std::string& owner)
    : UserError(place,
                owner + (mistake.key_.empty() ? " " : "." + mistake.key_ + " ") + mistake.what_,
                mistake.hint_),
      key_(mistake.key_),
      what_(mistake.what_),
      hint_(mistake.hint_) {}

OptionError OptionError::in(const Node& options, const std::string& owner) const {
  return {*this, options.place_of(key_), owner};
}

void require_option(bool fits, const std::string& key, const std::string& what,
                    const std::string& hint) {
  if (!fits) throw OptionError(key, what, hint);
}

void check_options(const Node& options, const std::string& owner,
                   const std::function<void()>& check) {
  try {
    check();
  } catch (const OptionError& error) {
    throw error.in(options, owner);
  }
}

}  // namespace longbow
