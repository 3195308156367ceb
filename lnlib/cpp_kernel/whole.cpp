// A whole call in C++: look at it, run the kernel, and join the graph of autograd.
//
// For a row of 768 features Python takes ten times what the arithmetic takes. What `quick` does in Python is done
// here by PyTorch's own C++, in a fifth of that time. That C++ is not stable: this file is compiled for the PyTorch
// and the Python that are here, only when somebody asks for it, and `quick` serves where it is missing.
//
// It takes simple calls alone: ordinary tensors, dense, in memory that is there, while nothing of PyTorch's looks on.
// Of any other call it says so, and leaves it to Python.

#include <Python.h>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/record_function.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace {

using at::ScalarType;
using at::Tensor;
using torch::autograd::GradMode;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The functions of kernel.cpp for one dtype; see there.
struct Kernel {
    void (*forward)(int64_t, int64_t, int64_t, double, const void*, const void*, const void*, void*, void*);
    void (*backward)(int64_t, int64_t, int64_t, const void*, const void*, const void*, const void*, void*, void*, void*,
                     void*);
    int64_t (*scratch)(int64_t, int64_t);
    ScalarType parameters;  // of weight, bias and their gradients, as the kernel reads and writes them
};

Kernel kernels[int(ScalarType::NumOptions)]{};  // those that have been handed over
PyObject* gradients_in_python = nullptr;        // what to call where a backward pass is not simple
bool is_fork = false;                           // OpenMP's threads do not survive one

int64_t threads() { return is_fork ? 1 : at::get_num_threads(); }

// ---- What is simple

// Tell whether nothing of PyTorch's may look at a call or take it over: no tracing, no transform of torch.func, no
// mode, no tangents. Each of them shows in the dispatch keys of this thread, or beside them.
bool is_left_alone() {
    using namespace c10;
    const auto local = impl::tls_local_dispatch_key_set();
    const auto harmless = default_included_set | autocast_dispatch_keyset;  // on a CPU layer norm stays as it is
    auto excluded = default_excluded_set | autocast_dispatch_keyset;
    if (InferenceMode::is_enabled()) excluded = excluded | autograd_dispatch_keyset_with_ADInplaceOrView;
    return (local.included_ - harmless).empty() && (local.excluded_ - excluded).empty() &&
           at::impl::PythonTorchFunctionTLS::stack_len() == 0 && !torch::autograd::ForwardADLevel::try_get_by_idx(0);
}

// Tell whether a tensor is just numbers on a CPU, and next whether they lie one after the other in memory that is there.
bool is_ordinary(const Tensor& tensor) {
    using c10::DispatchKey;
    constexpr c10::DispatchKeySet ordinary({DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU,
                                            DispatchKey::ADInplaceOrView});
    return !(tensor.key_set().raw_repr() & ~ordinary.raw_repr());
}

bool is_simple(const Tensor& tensor) {
    if (!is_ordinary(tensor)) return false;
    if (!tensor.is_contiguous() || tensor.numel() == 0) return false;
    const size_t offset = tensor.storage_offset() * tensor.itemsize();
    return offset + tensor.nbytes() <= tensor.storage().nbytes();
}

// That of a sum or a mean is one number, expanded: it is copied if its memory holds what its strides reach.
Tensor dense_of(const Tensor& dy) {
    if (!is_ordinary(dy) || dy.is_contiguous() || dy.numel() == 0) return dy;
    const size_t needed = at::detail::computeStorageNbytes(dy.sizes(), dy.strides(), dy.itemsize(), dy.storage_offset());
    return needed <= dy.storage().nbytes() ? dy.contiguous() : dy;
}

bool is_simple(const Tensor& tensor, ScalarType dtype, at::IntArrayRef shape) {
    return tensor.defined() && is_simple(tensor) && tensor.scalar_type() == dtype && tensor.sizes() == shape;
}

// No more than the tensor itself; else nothing. None becomes a tensor that is not defined.
std::optional<Tensor> tensor_of(PyObject* given, bool may_be_none) {
    if (given == Py_None && may_be_none) return Tensor();
    const auto type = reinterpret_cast<PyObject*>(Py_TYPE(given));
    if (type != THPVariableClass && type != ParameterClass) return {};
    return THPVariable_Unpack(given);
}

// The sizes in a tuple, a list or a torch.Size of ints, of which True is none.
std::optional<std::vector<int64_t>> sizes_of(PyObject* given) {
    if (!PyTuple_CheckExact(given) && !PyList_CheckExact(given) && !THPSize_Check(given)) return {};
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i) {
        PyObject* size = PySequence_Fast_GET_ITEM(given, i);
        if (!PyLong_CheckExact(size)) return {};
        int overflows = 0;
        sizes.push_back(PyLong_AsLongLongAndOverflow(size, &overflows));
        if (overflows) return {};
    }
    return sizes;
}

// ---- The two passes

struct Released {  // others may run Python meanwhile
    PyThreadState* state = PyEval_SaveThread();
    ~Released() { PyEval_RestoreThread(state); }
};

void* data(const Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

Tensor empty(at::IntArrayRef shape, ScalarType dtype) { return Tensor(at::detail::empty_cpu(shape, dtype)); }

Tensor in_type(const Tensor& tensor, ScalarType dtype) {
    if (!tensor.defined() || tensor.scalar_type() == dtype) return tensor;
    at::AutoDispatchBelowADInplaceOrView no_graph;
    return tensor.to(dtype);
}

// What a call is about; H features in each of B rows.
struct Call {
    const Kernel* kernel;
    std::vector<int64_t> normalized_shape;
    int64_t B, H;
    double eps;
    ScalarType dtype;
    std::optional<ScalarType> weight, bias;  // their dtypes, if they are there
};

struct LayerNormBackward : torch::autograd::Node {
    Call call;
    SavedVariable input, weight, statistics;
    std::vector<int64_t> shape;  // of the input
    bool is_released = false;

    std::string name() const override { return "LayerNormFunctionBackward"; }

    void release_variables() override {
        std::lock_guard<std::mutex> lock(mutex_);
        input.reset_data(), weight.reset_data(), statistics.reset_data();
        is_released = true;
    }

    variable_list apply(variable_list&& from_above) override {
        const Tensor dy = from_above[0];
        if (!dy.defined()) return variable_list(3);
        Tensor x, w, s;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            TORCH_CHECK(!is_released, torch::autograd::ERR_BACKWARD_TWICE);  // bias alone keeps nothing to miss
            x = input.unpack(), w = weight.unpack(), s = statistics.unpack();
        }
        const bool has_x = is_simple(x, call.dtype, shape) && is_simple(s, ScalarType::Double, {3, call.B});
        const bool needs_w = call.weight && task_should_compute_output(0);
        const bool has_w = !needs_w || is_simple(w, *call.weight, call.normalized_shape);
        if (GradMode::is_enabled() || !is_left_alone() || !has_x || !has_w) return in_python(dy, x, w, s);
        const Tensor dense = dense_of(dy);
        if (!is_simple(dense, call.dtype, shape)) return in_python(dy, x, w, s);
        RECORD_FUNCTION("lnlib::layer_norm_backward", {});
        return by_kernel(dense, x, needs_w ? w : Tensor(), s);
    }

    void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "compiled autograd cannot record a layer norm that was computed by lnlib's "
                                           "whole.cpp; compute it with backend=\"reference\"");
    }

    variable_list by_kernel(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& s) {
        const ScalarType type = call.kernel->parameters;
        const Tensor wide = in_type(w, type);
        Tensor dx, dweight, dbias;
        if (task_should_compute_output(0)) dx = empty(shape, call.dtype);
        if (call.weight && task_should_compute_output(1)) dweight = empty(call.normalized_shape, type);
        if (call.bias && task_should_compute_output(2)) dbias = empty(call.normalized_shape, type);
        const Tensor scratch = empty({call.kernel->scratch(call.B, call.H)}, ScalarType::Double);
        call.kernel->backward(call.B, call.H, threads(), data(dy), data(x), data(s), data(wide), data(dx),
                              data(dweight), data(dbias), data(scratch));
        return {dx, in_type(dweight, call.weight.value_or(type)), in_type(dbias, call.bias.value_or(type))};
    }

    // Differentiable, or watched, or odd: `lnlib.closed_form` knows what to do.
    variable_list in_python(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& s) {
        pybind11::gil_scoped_acquire gil;
        auto dtype = [](std::optional<ScalarType> type) -> pybind11::object {
            if (!type) return pybind11::none();
            return pybind11::reinterpret_borrow<pybind11::object>((PyObject*)torch::getTHPDtype(*type));
        };
        auto tensor = [](const Tensor& each) -> pybind11::object {
            if (!each.defined()) return pybind11::none();
            return pybind11::reinterpret_steal<pybind11::object>(THPVariable_Wrap(each));
        };
        const auto found = pybind11::make_tuple(tensor(x), tensor(w), tensor(s));
        const auto needs = pybind11::make_tuple(task_should_compute_output(0), task_should_compute_output(1),
                                                task_should_compute_output(2));
        const auto dtypes = pybind11::make_tuple(dtype(call.dtype), dtype(call.weight), dtype(call.bias));
        variable_list gradients(3);
        try {
            const pybind11::tuple made = pybind11::reinterpret_borrow<pybind11::object>(gradients_in_python)(
                tensor(dy), found, shape, call.normalized_shape, call.eps, needs, dtypes);
            for (int i = 0; i < 3; ++i)
                if (!made[i].is_none()) gradients[i] = THPVariable_Unpack(made[i].ptr());
        } catch (pybind11::error_already_set& error) {
            error.restore();
            python_error kept;
            kept.persist();
            throw kept;
        }
        return gradients;
    }
};

// Nodes are counted in two ways, by the version of PyTorch.
template <typename T, typename Pointer = decltype(torch::autograd::Edge::function)>
auto new_node() {
    if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
        return std::shared_ptr<T>(new T(), [](auto* node) { deleteNode(node); });
    else
        return c10::make_intrusive<T>();
}

Tensor run(const Call& call, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    RECORD_FUNCTION("lnlib::layer_norm", {});
    const bool needs_x = x.requires_grad(), needs_weight = weight.defined() && weight.requires_grad();
    const bool has_graph =
        !c10::InferenceMode::is_enabled() && torch::autograd::compute_requires_grad(x, weight, bias);
    const bool keeps = has_graph && (needs_x || needs_weight);
    const Tensor y = empty(x.sizes(), call.dtype);
    const Tensor statistics = keeps ? empty({3, call.B}, ScalarType::Double) : Tensor();
    const Tensor w = in_type(weight, call.kernel->parameters), b = in_type(bias, call.kernel->parameters);
    call.kernel->forward(call.B, call.H, threads(), call.eps, data(x), data(w), data(b), data(y),
                         data(statistics));
    if (!has_graph) return y;
    auto node = new_node<LayerNormBackward>();
    node->set_next_edges(torch::autograd::collect_next_edges(x, weight, bias));
    node->call = call, node->shape = x.sizes().vec();
    if (keeps) node->input = SavedVariable(x, false);
    if (needs_x && weight.defined()) node->weight = SavedVariable(weight, false);
    if (keeps) node->statistics = SavedVariable(statistics, false);
    torch::autograd::set_history(y, node);
    return y;
}

// ---- What Python calls

// layer_norm(input, normalized_shape, weight, bias, eps): y, or None if the call, right or wrong, is not simple.
PyObject* layer_norm(PyObject*, PyObject* const* given, Py_ssize_t number) {
    HANDLE_TH_ERRORS
    if (number != 5 || !PyFloat_CheckExact(given[4]) || !is_left_alone()) Py_RETURN_NONE;
    const auto x = tensor_of(given[0], false), weight = tensor_of(given[2], true), bias = tensor_of(given[3], true);
    auto sizes = sizes_of(given[1]);
    if (!x || !weight || !bias || !sizes || sizes->empty() || !is_simple(*x)) Py_RETURN_NONE;
    const int64_t leading = x->dim() - int64_t(sizes->size());
    if (leading < 0 || x->sizes().slice(leading) != at::IntArrayRef(*sizes)) Py_RETURN_NONE;
    const ScalarType dtype = x->scalar_type();
    const Kernel& kernel = kernels[int(dtype)];
    if (!kernel.forward) Py_RETURN_NONE;
    const Tensor& first = weight->defined() ? *weight : *bias;
    const ScalarType of_parameters = first.defined() ? first.scalar_type() : dtype;
    if (of_parameters != dtype && of_parameters != kernel.parameters) Py_RETURN_NONE;
    for (const Tensor& parameter : {*weight, *bias})
        if (parameter.defined() && !is_simple(parameter, of_parameters, *sizes)) Py_RETURN_NONE;
    const int64_t H = c10::multiply_integers(*sizes);
    Call call{&kernel, std::move(*sizes), x->numel() / H, H, PyFloat_AS_DOUBLE(given[4]), dtype};
    if (weight->defined()) call.weight = of_parameters;
    if (bias->defined()) call.bias = of_parameters;
    Tensor y;
    {
        Released gil;
        y = run(call, *x, *weight, *bias);
    }
    return THPVariable_Wrap(std::move(y));
    END_HANDLE_TH_ERRORS
}

// take(dtype, dtype of parameters, addresses of forward, backward and scratch)
PyObject* take(PyObject*, PyObject* given) {
    HANDLE_TH_ERRORS
    PyObject *dtype, *parameters;
    unsigned long long addresses[3];
    if (!PyArg_ParseTuple(given, "OOKKK", &dtype, &parameters, addresses, addresses + 1, addresses + 2)) return nullptr;
    Kernel& kernel = kernels[int(reinterpret_cast<THPDtype*>(dtype)->scalar_type)];
    kernel.parameters = reinterpret_cast<THPDtype*>(parameters)->scalar_type;
    kernel.backward = reinterpret_cast<decltype(kernel.backward)>(addresses[1]);
    kernel.scratch = reinterpret_cast<decltype(kernel.scratch)>(addresses[2]);
    kernel.forward = reinterpret_cast<decltype(kernel.forward)>(addresses[0]);  // last: by it one sees the others
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
}

// begin(what computes gradients in Python, whether this is a forked process)
PyObject* begin(PyObject*, PyObject* given) {
    PyObject* function;
    int forked;
    if (!PyArg_ParseTuple(given, "Op", &function, &forked)) return nullptr;
    Py_INCREF(function);
    Py_XSETREF(gradients_in_python, function);
    is_fork = forked;
    Py_RETURN_NONE;
}

PyObject* fork(PyObject*, PyObject*) {
    is_fork = true;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"layer_norm", (PyCFunction)(void*)layer_norm, METH_FASTCALL, nullptr},
                         {"take", take, METH_VARARGS, nullptr},
                         {"begin", begin, METH_VARARGS, nullptr},
                         {"fork", fork, METH_NOARGS, nullptr},
                         {}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "lnlib_whole", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_lnlib_whole() { return PyModule_Create(&module); }
