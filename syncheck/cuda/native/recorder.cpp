// Records operators that cannot race, without calling into Python.
//
// torch passes an operator to a dispatch mode through the kernel registered at the dispatch key Python. For most `aten`
// operators, this file registers a kernel there that replaces the mode while only the current stream has used the
// memory, or has it to itself again (`syncheck.cuda.owners`): it runs the operator below that key, and records the
// memory that it read and wrote. Everything else goes to the original kernel, and so to the mode.
//
// Another kernel is registered above autograd, at PythonTLSSnapshot, which torch calls first if there is a mode. If
// nothing in between can call Python, it handles the operator in a single step: autograd would pass the mode a `detach`
// of each result that it saves, bypassing the dispatcher (c10/core/TensorImpl.cpp, `shallow_copy_and_detach`).
//
// Threads without Python frames, those of the autograd engine, also record events, and collectives that use memory only
// after everything else that has used it; see `Clocks`.
//
// The GIL guards all state. It is held while arguments and results are looked up, but not while the operator runs.
//
// Source: aten/src/ATen/core/PythonFallbackKernel.cpp; c10/core/impl/TorchDispatchModeTLS.h.

#include "detach.h"
#include "kernel.h"

namespace {

std::unique_ptr<Plan> plan_from(const py::dict& given) {
  auto plan = std::make_unique<Plan>();
  py::object name = given["name"];
  plan->name = name.release().ptr();
  plan->kind = static_cast<Kind>(given["kind"].cast<int>());
  if (plan->kind == Kind::COMPOSITE) {
    return plan;
  }
  if (plan->kind == Kind::COLLECTIVE) {
    plan->function = py::object(given["function"]).release().ptr();
  }
  plan->is_seen = given["is_seen"].cast<bool>();
  plan->touches = given["touches"].cast<bool>();
  plan->fresh = given["fresh"].cast<bool>();
  plan->switch_position = given["switch"].cast<int>();
  for (py::handle argument : given["arguments"]) {
    auto pair = argument.cast<std::pair<size_t, bool>>();
    plan->arguments.push_back({pair.first, pair.second});
  }
  if (!given["off"].is_none()) {
    plan->off = plan_from(given["off"].cast<py::dict>());
  }
  return plan;
}

auto* plans = new std::unordered_multimap<std::string, std::unique_ptr<const Plan>>;

// Return a plan that is never destroyed, because threads may be using it; equal plans of an earlier check are reused.
const Plan* kept(std::unique_ptr<Plan> plan) {
  const char* name = PyUnicode_AsUTF8(plan->name);
  auto known = plans->equal_range(name);
  for (auto other = known.first; other != known.second; ++other) {
    if (*other->second == *plan) {
      return other->second.get();
    }
  }
  return plans->emplace(name, std::move(plan))->second.get();
}

bool set_plan(const std::string& name, const std::string& overload, const py::dict& given) {
  auto found = kernels->find(full_name(name, overload));
  if (found == kernels->end()) {
    return false;
  }
  const Plan* plan = kept(plan_from(given));
  for (Kernel* kernel : found->second) {
    kernel->set_plan(plan);
  }
  return true;
}

size_t n_plans() {
  return plans->size();
}

// Drop everything, and record for another check.
void attach(
    py::object callbacks,
    py::object reporter,
    int64_t next,
    py::list running,
    py::list inside,
    py::dict buffers,
    py::dict live,
    py::dict events,
    py::type mode,
    const std::string& kind) {
  install();
  syncheck::take_detach();
  is_active = false;
  auto* before = state;
  state = new State;
  state->callbacks = std::move(callbacks);
  state->reporter = std::move(reporter);
  state->next_allocation = next;
  state->running = std::move(running);
  state->inside = std::move(inside);
  state->buffers = std::move(buffers);
  state->live = std::move(live);
  state->events = std::move(events);
  state->mode = reinterpret_cast<PyTypeObject*>(mode.ptr());
  state->kind = c10::Device(kind).type();
  before->clear();
  for (auto& entry : *kernels) {
    for (Kernel* kernel : entry.second) {
      kernel->set_plan(nullptr);
    }
  }
}

void watch(py::object mode) {
  state->modes.insert(mode.ptr());
}

// Record the operators of the only stream with work or memory, which is a device's default stream.
void start(int64_t stream, int64_t device) {
  state->has_multiple_streams = false;
  state->stream = stream;
  state->device = static_cast<c10::DeviceIndex>(device);
  is_active = true;
}

// Record operators on all streams, each limited to memory that only its stream has used.
void start_multiple() {
  state->clocks.forget_order();  // other uses of the memory were not seen until now
  state->has_multiple_streams = true;
  is_active = true;
}

Blocks::iterator block_with(int64_t allocation) {
  auto found = state->storages.find(allocation);
  return found == state->storages.end() ? state->blocks.end() : state->blocks.find(found->second);
}

// Mark an allocation as used by a single stream, whose accesses cannot race until another stream uses it.
void own(int64_t allocation, int64_t stream) {
  auto block = block_with(allocation);
  if (block != state->blocks.end()) {
    stream = state->aliased.count(allocation) ? SHARED : stream;
    block->second.home = stream;
    block->second.position = state->clocks.position(stream);
    block->second.is_passed_on = false;
  }
}

// Mark an allocation as used by several streams.
void share(int64_t allocation) {
  own(allocation, SHARED);
}

// Mark all memory that was passed on here as used by several streams, because it may be used in ways that are not seen.
void share_passed_on() {
  for (auto& entry : state->blocks) {
    if (entry.second.is_passed_on) {
      entry.second.home = SHARED;
    }
  }
}

// Note that a stream has used memory in an operator that was not recorded here.
void used_elsewhere(int64_t stream) {
  state->clocks.use_elsewhere(stream);
}

// Forget an event's record, because it was recorded again and not here.
void forget_event(int64_t event) {
  state->clocks.forget(event);
}

// Drop an allocation that was entered in Python and freed; its storage may live on, with no memory or other memory.
void forget(int64_t allocation) {
  auto block = block_with(allocation);
  if (block != state->blocks.end()) {
    drop(block);
  }
}

void stop() {
  is_active = false;
}

// Drop all recorded accesses after the host has waited for them: they can no longer race.
void complete() {
  state->accesses.clear();
  for (Item& item : state->items) {
    item.first = item.count = 0;
  }
}

// Drop the recorded accesses of a stream that the host has waited for: they can no longer race.
void complete_stream(int64_t stream) {
  for (Item& item : state->items) {
    if (item.stream == stream) {
      item.count = 0;
    }
  }
}

// Add a monitor call to the log, after all that has been recorded.
void add_call(py::tuple call) {
  state->items.push_back({ItemKind::CALL, call.release().ptr(), 0, 0, 0, 0, 0, 0});
}

// Drop the blocks whose last owner is gone.
void purge() {
  for (auto it = state->blocks.begin(); it != state->blocks.end();) {
    if (it->second.storage.expired()) {
      it = drop(it);
    } else {
      ++it;
    }
  }
}

// Return the monitor call that represents an item other than a launch; it is taken out of the item.
py::tuple call_of(const Item& item) {
  switch (item.kind) {
    case ItemKind::ALLOCATION:
      return py::make_tuple("allocate", item.ident, item.stream, item.n_bytes, 0, item.site);
    case ItemKind::EVENT:
      return py::make_tuple("event", item.ident, item.site);
    case ItemKind::RECORD:
      return py::make_tuple("record", item.ident, item.stream, item.site);
    case ItemKind::CALL:
      return py::reinterpret_steal<py::tuple>(item.name);
    default:
      return py::make_tuple("wait", item.ident, item.stream, item.site, state->callbacks.attr("by_torch"));
  }
}

// Add the monitor calls that represent the recorded operations to a deque, in order; see `CallBuffer`.
//
// If `is_condensed`, leave out memory that was allocated and freed meanwhile, and accesses that are repeated later.
// `is_condensed` must be false where an allocation alone may produce a finding.
//
// No other call can be added in between: garbage collection, which may free memory, is disabled meanwhile.
void take_calls(bool is_condensed, const py::object& deque) {
  state->n_since_purge += state->items.size();
  // With frequent calls, purging costs no more than the recording did, unless the exact time of a free matters.
  if (!state->has_multiple_streams || !is_condensed || 4 * state->n_since_purge >= state->blocks.size()) {
    state->n_since_purge = 0;
    purge();
  }
  CollectorPause pause;
  std::vector<Item> items;
  std::vector<Access> accesses;
  std::vector<int64_t> freed;
  items.swap(state->items);
  accesses.swap(state->accesses);
  freed.swap(state->freed);
  std::unordered_set<int64_t> dead(freed.begin(), freed.end()), born;
  std::unordered_set<Access, AccessHash> again;
  if (!is_condensed) {
    dead.clear();
  }
  std::vector<py::object> calls;  // in reverse order
  int64_t n_elided = 0, site_elided = 0, stream_elided = 0;
  auto close = [&]() {
    if (n_elided != 0) {
      calls.push_back(py::make_tuple("launches_elided", stream_elided, n_elided, site_elided));
      n_elided = 0;
    }
  };
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (item->kind == ItemKind::ALLOCATION && dead.count(item->ident)) {
      born.insert(item->ident);
      continue;
    }
    if (item->kind != ItemKind::LAUNCH) {
      // New memory has no earlier use that matters, so launches without accesses may come before its allocation.
      if (item->kind != ItemKind::ALLOCATION || !is_condensed) {
        close();
      }
      calls.push_back(call_of(*item));
      continue;
    }
    py::list last;
    for (size_t index = item->first; index < item->first + item->count; index++) {
      const Access& access = accesses[index];
      if (!dead.count(access.allocation) && !(is_condensed && again.count(access))) {
        last.append(py::make_tuple(access.allocation, access.view, access.is_write));
      }
    }
    if (last.empty() && !state->delivered.insert(item->name).second) {
      if (item->stream != stream_elided) {
        close();
      }
      if (n_elided++ == 0) {
        site_elided = item->site;
        stream_elided = item->stream;
      }
      continue;
    }
    state->delivered.insert(item->name);
    again.insert(accesses.begin() + item->first, accesses.begin() + item->first + item->count);
    close();
    calls.push_back(py::make_tuple(
        "launch", item->stream, py::reinterpret_borrow<py::object>(item->name), last, item->site));
  }
  close();
  py::list made;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    made.append(*call);
  }
  for (int64_t allocation : freed) {
    if (!born.count(allocation)) {
      made.append(py::make_tuple("free", allocation, 0));
    }
  }
  deque.attr("extend")(made);
}

// Return (owner, allocation, home, node or None) of the block at an address, or None if it is already entered in
// Python; mark it as entered. If the given storage is an alias, not the owner, several streams may use the block.
py::object take_block(int64_t storage, int64_t address) {
  auto there = state->ours.find(reinterpret_cast<const void*>(address));
  auto found = there == state->ours.end() ? state->blocks.end() : state->blocks.find(there->second);
  if (found == state->blocks.end() || !found->second.is_native) {
    return py::none();
  }
  Block& block = found->second;
  auto owner = block.storage.lock();
  if (!owner || owner->data() != block.address) {
    return py::none();
  }
  block.is_native = false;
  state->n_new--;
  if (owner.get() != reinterpret_cast<const c10::StorageImpl*>(storage)) {
    block.home = SHARED;
  }
  const int64_t allocation = block.allocation, home = block.home;
  py::object node = block.node ? py::object(py::int_(*block.node)) : py::object(py::none());
  py::object wrapped = py::reinterpret_steal<py::object>(THPStorage_Wrap(c10::Storage(std::move(owner))));
  return py::make_tuple(wrapped, allocation, home, node);
}

// Return the storages whose blocks are not entered in Python.
py::list unknown_storages() {
  py::list made;
  if (state->n_new == 0) {
    return made;
  }
  std::vector<c10::Storage> storages;  // collected first: no Python code may run during the iteration
  for (auto& entry : state->blocks) {
    auto storage = entry.second.is_native ? entry.second.storage.lock() : nullptr;
    if (storage) {
      storages.emplace_back(std::move(storage));
    }
  }
  for (c10::Storage& storage : storages) {
    made.append(py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage))));
  }
  return made;
}

bool has_calls() {
  return !state->items.empty() || !state->freed.empty();
}

int64_t n_recorded() {
  return state->n_recorded;
}

}  // namespace

namespace syncheck {

bool take_callback(CallbackKind kind, uintptr_t handle, uintptr_t stream_handle) {
  if (!is_active || !state->has_multiple_streams || !Py_IsInitialized()) {
    return false;
  }
  GilGuard lock;
  const bool is_sync = kind != CallbackKind::RECORD && kind != CallbackKind::WAIT;
  if (!is_without_python() ||
      (in_collective == nullptr && (is_sync || !is_active || Py_SIZE(state->running.ptr()) != 0))) {
    return false;
  }
  int64_t event = 0;
  try {
    const int64_t stream = kind == CallbackKind::SYNC_EVENT ? 0
        : kind == CallbackKind::SYNC_DEVICE ? current_device()
                                            : stream_with(stream_handle);
    event = kind == CallbackKind::RECORD ? announced_event(handle) : handle ? event_with(handle) : 0;
    if (handle != 0 && event == 0) {
      return true;  // an event that predates the check, so what it covers is unknown
    }
    const Callback callback{kind, event, stream};
    if (in_collective != nullptr) {
      in_collective->push_back(callback);
    } else {
      add_callback(callback, site_here());
      order_by(callback);
      flush_if_full();
    }
  } catch (const std::exception& error) {
    state->clocks.forget(event);
    report(py::str("an event"), error.what());
  }
  return true;
}

bool is_in_collective() {
  return in_collective != nullptr;
}

bool may_detach(const c10::TensorImpl* tensor) {
  return is_active.load(std::memory_order_relaxed) && is_simple() && is_only_mode() && is_plain(tensor) &&
      !torch::jit::tracer::isTracing();
}

}  // namespace syncheck

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("attach", &attach);
  module.def("set_plan", &set_plan);
  module.def("n_plans", &n_plans);
  module.def("watch", &watch);
  module.def("next_allocation", &next_allocation);
  module.def("start", &start);
  module.def("start_multiple", &start_multiple);
  module.def("own", &own);
  module.def("share", &share);
  module.def("complete", &complete);
  module.def("complete_stream", &complete_stream);
  module.def("add_call", &add_call);
  module.def("forget", &forget);
  module.def("stop", &stop);
  module.def("take_calls", &take_calls);
  module.def("take_block", &take_block);
  module.def("unknown_storages", &unknown_storages);
  module.def("has_calls", &has_calls);
  module.def("n_recorded", &n_recorded);
  module.def("share_passed_on", &share_passed_on);
  module.def("used_elsewhere", &used_elsewhere);
  module.def("forget_event", &forget_event);
  module.def("mute_trace", &syncheck::mute_trace);
}
