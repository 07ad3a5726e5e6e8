// The order of streams that follows from the events recorded and waited for here: vector clocks.
//
// They may know less order than there is, never more: calls from Python are not seen. `forget` has to be called if an
// event is recorded there, and `use_elsewhere` if memory is used there.

#pragma once

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <cstdint>

namespace syncheck {

class Clocks {
 public:
  // Return a stream's position: one more than the number of events recorded on it.
  int64_t position(int64_t stream) const {
    return get(positions_, stream) + 1;
  }

  void record(int64_t event, int64_t stream) {
    if (events_.size() >= MAX_EVENTS) {
      events_.clear();
    }
    Clock clock = streams_[stream];
    clock[stream] = position(stream);
    events_[event] = std::move(clock);
    positions_[stream]++;
  }

  void wait(int64_t event, int64_t stream) {
    auto recorded = events_.find(event);
    if (recorded == events_.end()) {
      return;
    }
    Clock& clock = streams_[stream];
    for (const auto& [other, position] : recorded->second) {
      int64_t& known = clock[other];
      known = std::max(known, position);
    }
  }

  // Return whether a stream's next operation comes after everything on another stream up to a position, and after all
  // uses of memory on it that were not seen here.
  bool is_after(int64_t stream, int64_t other, int64_t position) const {
    auto clock = streams_.find(stream);
    return clock != streams_.end() && get(clock->second, other) >= std::max(position, get(used_elsewhere_, other));
  }

  // Note that a stream has used memory in a way that is not seen here.
  void use_elsewhere(int64_t stream) {
    used_elsewhere_[stream] = position(stream);
  }

  // Forget an event, which was recorded elsewhere.
  void forget(int64_t event) {
    events_.erase(event);
  }

  // Forget all order, but keep the positions: whatever has happened until now comes before the next event.
  void forget_order() {
    streams_.clear();
    events_.clear();
  }

 private:
  using Clock = ska::flat_hash_map<int64_t, int64_t>;  // stream -> the last position that comes before

  static constexpr size_t MAX_EVENTS = 4096;

  static int64_t get(const Clock& clock, int64_t stream) {
    auto found = clock.find(stream);
    return found == clock.end() ? 0 : found->second;
  }

  Clock positions_;
  Clock used_elsewhere_;  // stream -> its position at the latest such use
  ska::flat_hash_map<int64_t, Clock> streams_;
  ska::flat_hash_map<int64_t, Clock> events_;
};

}  // namespace syncheck
