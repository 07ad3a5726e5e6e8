// The kernel that runs and records operators. Included by recorder.cpp only.

#pragma once

#include "call_sites.h"
#include "operators.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>

#include <algorithm>

// Declared in torch/csrc/jit/python/pybind_utils.h, which takes long to compile.
namespace torch::jit {
py::object toPyObject(IValue ivalue);
}

namespace {

class Kernel : public c10::OperatorKernel {
 public:
  Kernel(c10::SafeKernelFunction original, Level level, bool is_mutable)
      : original_(std::move(original)), level_(level), is_mutable_(is_mutable) {}

  void set_plan(const Plan* plan) {
    plan_.store(plan, std::memory_order_release);
  }

  // While torch.jit.trace records, operators go to the mode, which exposes their parts to it.
  void operator()(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const Plan* plan = plan_.load(std::memory_order_acquire);
    if (plan == nullptr || !is_active.load(std::memory_order_relaxed) || !is_simple() || !is_only_mode() ||
        torch::jit::tracer::isTracing() || !record(*plan, op, keys, stack)) {
      original_.callBoxed(op, keys, stack);
    }
  }

 private:
  // Run and record an operator; return false, without side effects, if it has to go to the mode.
  bool record(const Plan& given, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const size_t n_arguments = op.schema().arguments().size();
    const size_t begin = stack->size() - n_arguments;
    for (size_t index = begin; index < stack->size(); index++) {
      auto is_supported = [](const at::Tensor& tensor) {
        return is_plain(tensor.unsafeGetTensorImpl()) && !is_in_buffer(tensor);
      };
      if (!each_tensor((*stack)[index], is_supported)) {
        return false;
      }
    }
    if (given.kind == Kind::COMPOSITE) {
      return decompose(op, stack);
    }
    if (given.kind == Kind::COLLECTIVE) {
      return record_collective(given, op, keys, stack);
    }
    if (!is_recordable_case(given, *stack, begin) ||
        (level_ == Level::ABOVE_AUTOGRAD && !is_only_recorded_by_autograd(is_mutable_, keys, *stack, begin))) {
      return false;
    }
    if (!given.is_seen || given.kind == Kind::ITEM) {
      run_below(level_, op, keys, stack);
      return true;
    }
    const Plan& plan = given.off && is_off((*stack)[begin + given.switch_position]) ? *given.off : given;
    Inputs inputs;
    c10::DeviceIndex device = -1;
    const bool has_multiple_streams = state->has_multiple_streams;  // copied, because another thread may change it
    if (!take_inputs(plan, *stack, begin, has_multiple_streams, inputs, device) ||
        !is_recordable(plan, inputs, device, has_multiple_streams)) {
      return false;
    }
    run_below(level_, op, keys, stack);
    if (!inputs.empty() || plan.fresh) {
      GilGuard lock;
      try {
        finish(plan, *stack, plan.fresh ? op.schema().returns().size() : 0, inputs, device);
      } catch (const std::exception& error) {
        report(plan.name, error.what());
      }
    }
    return true;
  }

  // Return whether an operator runs on the only stream, or on the only stream that has used its memory.
  static bool is_recordable(
      const Plan& plan, const Inputs& inputs, c10::DeviceIndex device, bool has_multiple_streams) {
    if (!has_multiple_streams) {
      return stream_of(device, has_multiple_streams) != 0;
    }
    if (inputs.empty()) {
      return true;  // its results determine the device later
    }
    GilGuard lock;
    try {
      return is_private(inputs, stream_of(device, has_multiple_streams));
    } catch (const std::exception& error) {
      report(plan.name, error.what());
      return false;
    }
  }

  // Run and record a collective that C++ code issues, as DDP does during a backward pass; return false, without side
  // effects, if it has to go to the mode.
  bool record_collective(const Plan& plan, const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const size_t begin = stack->size() - op.schema().arguments().size();
    Inputs inputs;
    c10::DeviceIndex device = -1;
    if (!state->has_multiple_streams || in_collective != nullptr ||
        !take_inputs(plan, *stack, begin, true, inputs, device) || inputs.empty()) {
      return false;
    }
    const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
    const State* const check = state;
    {
      GilGuard lock;
      if (!syncheck::is_trace_taken() || !is_without_python() || !is_active || state->modes.count(top_mode()) == 0) {
        return false;
      }
      try {
        state->callbacks.attr("issue")(py::handle(plan.function), lazily(arguments));
      } catch (const std::exception& error) {
        report(plan.name, error.what());
      }
    }
    Callbacks callbacks;
    const DeletionsGuard after;
    {
      CollectiveGuard guard(&callbacks);
      run_below(level_, op, keys, stack);
    }
    GilGuard lock;
    try {
      if (state == check) {
        finish_collective(plan, arguments, *stack, op.schema().returns().size(), inputs, device, callbacks);
      }
    } catch (const std::exception& error) {
      for (const Callback& callback : callbacks) {
        state->clocks.forget(callback.event);
      }
      report(plan.name, error.what());
    }
    return true;
  }

  // Return a function without parameters that returns an operator's arguments as Python objects.
  static py::object lazily(const std::vector<c10::IValue>& arguments) {
    return py::cpp_function([arguments]() {
      py::list converted;
      for (const c10::IValue& argument : arguments) {
        converted.append(torch::jit::toPyObject(argument));
      }
      return py::tuple(converted);
    });
  }

  static void finish_collective(
      const Plan& plan, const std::vector<c10::IValue>& arguments, const Stack& stack, size_t n_results,
      const Inputs& inputs, c10::DeviceIndex device, const Callbacks& callbacks) {
    const int64_t stream = working_stream(callbacks, stream_of(device, true));
    const auto split = callbacks.begin() + static_cast<std::ptrdiff_t>(work_index(callbacks, stream));
    const int64_t site = site_here();
    const Accesses accesses = accesses_to(inputs);
    bool is_recorded = is_active && has_only_records_and_waits(callbacks) &&
        state->collective_streams.count(stream) != 0 && pass_on_all(inputs, stream);
    // No Python code runs from here until the collective is in the log.
    std::for_each(callbacks.begin(), split, order_by);
    is_recorded = is_recorded && is_after_others(inputs, stream);
    if (is_recorded) {
      own_all(inputs, stream);
      std::for_each(callbacks.begin(), split, [site](const Callback& callback) { add_callback(callback, site); });
      add_launch(plan, stream, site, accesses);
      std::for_each(split, callbacks.end(), [site](const Callback& callback) { add_callback(callback, site); });
    }
    std::for_each(split, callbacks.end(), order_by);
    if (is_recorded) {
      state->callbacks.attr("issued")(py::handle(plan.function), lazily(arguments), stream, device);
      flush_if_full();
      return;
    }
    py::list passed;
    for (const Callback& callback : callbacks) {
      passed.append(py::make_tuple(static_cast<int>(callback.kind), callback.event, callback.stream));
    }
    py::tuple results(n_results);
    for (size_t index = 0; index < n_results; index++) {
      results[index] = torch::jit::toPyObject(stack[stack.size() - n_results + index]);
    }
    state->callbacks.attr("log_collective")(py::handle(plan.function), lazily(arguments), results, passed);
    state->collective_streams.insert(stream);
  }

  // Run the operators that a composite operator consists of, as `WatchMode` does. With autograd enabled it never gets
  // here. If something has disabled autograd on the way, the mode handles it, starting from the outermost call's state.
  static bool decompose(const OperatorHandle& op, Stack* stack) {
    const bool is_autograd_off = c10::impl::tls_local_dispatch_key_set().excluded_.has_any(c10::autograd_dispatch_keyset);
    if (is_autograd_off && !c10::InferenceMode::is_enabled()) {
      return false;
    }
    op.callBoxedForDispatchKey(DispatchKey::CompositeImplicitAutograd, *stack);
    return true;
  }

  static void finish(
      const Plan& plan, const Stack& stack, size_t n_results, const Inputs& inputs, c10::DeviceIndex device) {
    const c10::DeviceIndex made = device_of_results(stack, n_results);
    if (inputs.empty() && made == -1) {
      return;  // no GPU is involved
    }
    const int64_t stream = made == MIXED ? 0 : stream_of(device < 0 ? made : device, state->has_multiple_streams);
    Accesses accesses = accesses_to(inputs);
    const int64_t site = site_here();
    if (!is_active || state->modes.count(top_mode()) == 0 || stream == 0 || (made >= 0 && device >= 0 && made != device) ||
        (state->has_multiple_streams && !is_private(inputs, stream))) {
      give_up(plan, stack, n_results, inputs);
      return;
    }
    if (state->has_multiple_streams) {
      own_all(inputs, stream);
    }
    take_results(plan, stack, n_results, stream, site, accesses);
    if (!accesses.empty()) {
      add_launch(plan, stream, site, accesses);
    }
    flush_if_full();
  }

  // Let the check's own mode log an operator that cannot be recorded any more: another thread has created a second
  // stream or used the operator's memory on one meanwhile, or the results are on another GPU.
  static void give_up(const Plan& plan, const Stack& stack, size_t n_results, const Inputs& inputs) {
    py::list passed, results;
    for (const Input& input : inputs) {
      py::object wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(input.tensor));
      passed.append(py::make_tuple(wrapped, input.is_write));
    }
    for (size_t index = stack.size() - n_results; index < stack.size(); index++) {
      each_tensor(stack[index], [&](const at::Tensor& tensor) {
        results.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
        return true;
      });
    }
    py::object mode = py::reinterpret_borrow<py::object>(top_mode());
    mode.attr("log_after_run")(py::reinterpret_borrow<py::object>(plan.name), passed, results, py::arg("fills") = plan.touches);
  }

  c10::SafeKernelFunction original_;
  const Level level_;
  const bool is_mutable_;
  std::atomic<const Plan*> plan_{nullptr};
};

auto* kernels = new std::unordered_map<std::string, std::vector<Kernel*>>;

std::string full_name(const std::string& name, const std::string& overload) {
  return overload.empty() ? name : name + "." + overload;
}

// Register kernels for those operators of a namespace that have no kernel of their own at a key.
void install_at(const std::string& space, DispatchKey key, Level level) {
  auto* library = new torch::Library(torch::Library::IMPL, space, key, __FILE__, __LINE__);  // never destroyed
  const std::string prefix = space + "::";
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind(prefix, 0) != 0) {
      continue;
    }
    auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(key) ||
        (level == Level::ABOVE_AUTOGRAD && op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))) {
      continue;
    }
    auto kernel = std::make_unique<Kernel>(op->getComputedKernelForDispatchKey(key), level, op->schema().is_mutable());
    const std::string full = full_name(name.name, name.overload_name);
    (*kernels)[full].push_back(kernel.get());
    library->impl(full.substr(prefix.size()).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

// Register all kernels, once per process. The `profiler` operators mark steps of DDP and of optimizers. Collectives that
// autograd has not processed yet go to the mode.
void install() {
  if (kernels->empty()) {
    install_at("c10d", DispatchKey::Python, Level::BELOW_AUTOGRAD);
    for (const char* space : {"aten", "profiler"}) {
      install_at(space, DispatchKey::Python, Level::BELOW_AUTOGRAD);
      install_at(space, DispatchKey::PythonTLSSnapshot, Level::ABOVE_AUTOGRAD);
    }
  }
}

}  // namespace
