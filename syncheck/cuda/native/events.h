// Events, as torch's GPU trace reports them. Included by recorder.cpp only.

#pragma once

#include "state.h"
#include "trace.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace {

using syncheck::CallbackKind;

// A callback of torch's GPU trace: an event recorded or waited for, or a synchronization.
struct Callback {
  CallbackKind kind;
  int64_t event;
  int64_t stream;  // the device, if the kind is SYNC_DEVICE
};

using Callbacks = std::vector<Callback>;

thread_local Callbacks* in_collective = nullptr;  // the callbacks of the collective that runs in this thread

// Collects the callbacks of a collective while it runs in this thread.
class CollectiveGuard {
 public:
  explicit CollectiveGuard(Callbacks* callbacks) {
    in_collective = callbacks;
  }
  ~CollectiveGuard() {
    in_collective = nullptr;
  }
  CollectiveGuard(const CollectiveGuard&) = delete;
  CollectiveGuard& operator=(const CollectiveGuard&) = delete;
};

int64_t current_device() {
  const c10::Device device = c10::impl::VirtualGuardImpl(state->kind).getDevice();
  return device.has_index() ? device.index() : 0;
}

// Forwards the deletions of events during a collective, once the collective has been recorded.
class DeletionsGuard {
 public:
  DeletionsGuard() = default;
  ~DeletionsGuard() {
    syncheck::forward_deletions();
  }
  DeletionsGuard(const DeletionsGuard&) = delete;
  DeletionsGuard& operator=(const DeletionsGuard&) = delete;
};

// Return the session's id of a stream of the current device, as torch's callbacks for records and waits pass it.
int64_t stream_with(uintptr_t handle) {
  const int64_t device = current_device();
  const std::pair<int64_t, int64_t> key(device, static_cast<int64_t>(handle));
  auto known = state->handles.find(key);
  if (known != state->handles.end()) {
    return known->second;
  }
  const int64_t ident = state->callbacks.attr("stream")(device, static_cast<int64_t>(handle)).cast<int64_t>();
  if (handle != PER_THREAD) {
    state->handles.emplace(key, ident);
  }
  return ident;
}

// Return the session's id of an event; 0 if it has none.
int64_t event_with(uintptr_t handle) {
  py::object key = py::reinterpret_steal<py::object>(PyLong_FromUnsignedLongLong(handle));
  PyObject* known = PyDict_GetItemWithError(state->events.ptr(), key.ptr());  // borrowed
  return known == nullptr ? 0 : PyLong_AsLongLong(known);
}

// Return the session's id of an event, which is announced if it is new.
int64_t announced_event(uintptr_t handle) {
  int64_t event = event_with(handle);
  if (event == 0) {
    event = state->callbacks.attr("new_event")(static_cast<int64_t>(handle)).cast<int64_t>();
    state->items.push_back({ItemKind::EVENT, nullptr, event, 0, 0, 0, 0, 0});
  }
  return event;
}

// Add an event's record or wait to the log.
void add_callback(const Callback& callback, int64_t site) {
  const bool is_record = callback.kind == CallbackKind::RECORD;
  state->items.push_back(
      {is_record ? ItemKind::RECORD : ItemKind::WAIT, nullptr, callback.event, 0, callback.stream, site, 0, 0});
}

void order_by(const Callback& callback) {
  if (callback.kind == CallbackKind::RECORD) {
    state->clocks.record(callback.event, callback.stream);
  } else if (callback.kind == CallbackKind::WAIT) {
    state->clocks.wait(callback.event, callback.stream);
  }
}

// See `working_stream` in callback_order.py, for operators whose own stream waits first.
int64_t working_stream(const Callbacks& callbacks, int64_t current) {
  if (!callbacks.empty() && callbacks.back().kind == CallbackKind::WAIT) {
    for (const Callback& callback : callbacks) {
      if (callback.kind == CallbackKind::RECORD && callback.event == callbacks.back().event) {
        return callbacks.back().stream;
      }
    }
  }
  std::unordered_set<int64_t> recorded;
  for (auto callback = callbacks.rbegin(); callback != callbacks.rend(); ++callback) {
    if (callback->kind == CallbackKind::RECORD) {
      recorded.insert(callback->stream);
    } else if (callback->kind == CallbackKind::WAIT && recorded.count(callback->stream)) {
      return callback->stream;
    }
  }
  return current;
}

// See `work_index` in callback_order.py, for callbacks without synchronizations.
size_t work_index(const Callbacks& callbacks, int64_t stream) {
  size_t position = callbacks.size();
  for (size_t index = callbacks.size(); index-- > 0;) {
    if (callbacks[index].stream == stream && callbacks[index].kind == CallbackKind::WAIT) {
      break;
    }
    if (callbacks[index].stream == stream && callbacks[index].kind == CallbackKind::RECORD) {
      position = index;
    }
  }
  return position;
}

bool has_only_records_and_waits(const Callbacks& callbacks) {
  for (const Callback& callback : callbacks) {
    if (callback.kind != CallbackKind::RECORD && callback.kind != CallbackKind::WAIT) {
      return false;
    }
  }
  return true;
}

}  // namespace
