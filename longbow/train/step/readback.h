#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace longbow {

// Numbers on their way back from the device. Each batch of them is handed on in order, once it has
// arrived; nobody waits before.
class Readback {
 public:
  using Numbers = std::map<std::string, double>;
  using Receiver = std::function<void(const Numbers&)>;

  explicit Readback(at::Device device) : device_(device) {}
  void send(const std::map<std::string, at::Tensor>& scalars, Receiver receiver);
  void poll();   // hands on what has arrived
  void flush();  // waits for the rest

 private:
  struct Sent {
    std::vector<std::string> names;
    at::Tensor values;  // on the CPU, filled when the event has passed
    std::optional<c10::Event> arrived;
    Receiver receiver;
  };
  void deliver();
  at::Device device_;
  std::deque<Sent> sent_;
};

}  // namespace longbow
