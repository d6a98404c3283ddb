"""NVIDIA's driver by ctypes: its functions with their types, and its error codes as errors with names.

    driver = load_driver()              # DeviceError where there is none
    driver.cuInit(0)                    # DriverError: cuInit: CUDA_ERROR_NO_DEVICE (100), ...

A function is declared by a method: its name, and the C type of every argument as an annotation. It is looked up at its
first call. Only what the driver itself offers is used (libcuda), no toolkit.
"""

# ruff: noqa: N802  # names are NVIDIA's

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

from whit.errors import BackendError, DeviceError

Int = Annotated[int, ctypes.c_int]
UInt = Annotated[int, ctypes.c_uint]
Size = Annotated[int, ctypes.c_size_t]
Long = Annotated[int, ctypes.c_ulonglong]
Address = Annotated[int, ctypes.c_uint64]  # of memory on the device
Handle = Annotated[Any, ctypes.c_void_p]
Text = Annotated[bytes, ctypes.c_char_p]
Out = Annotated[Any, ctypes.c_void_p]  # a reference to what the function fills in

OUT_OF_MEMORY = 2
NO_DEVICE = 100
PEER_IS_ENABLED = 704
NO_GPU = 'Use "CPU". CUDA_VISIBLE_DEVICES may hide the GPUs of this machine.'
_LIBRARIES = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
Declared = TypeVar("Declared", bound=Callable[..., None])


class DriverError(BackendError):
    """A function of the driver failed."""

    def __init__(self, function: str, code: int, name: str, text: str) -> None:
        super().__init__(f"CUDA: {function}: {name} ({code}), {text}")
        self.code = code
        self.name = name


def native(declared: Declared) -> Declared:
    """A function of the library with the annotated types; a code other than 0 is raised as an error."""
    symbol = declared.__name__

    @functools.wraps(declared)
    def call(self: Driver, *arguments: Any) -> None:
        function = self.functions.get(symbol)
        if function is None:
            function = self.bind(symbol, declared)
        code = function(*arguments)
        if code:
            raise self.error(symbol, code)

    return call  # type: ignore[return-value]


class Driver:
    """The functions that whit uses. Names and arguments are NVIDIA's."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.functions: dict[str, Any] = {}

    def bind(self, symbol: str, declared: Callable[..., None]) -> Any:
        """Looks a function up and gives it its types."""
        hints = get_type_hints(declared, include_extras=True)
        try:
            function = getattr(self.library, symbol)
        except AttributeError:
            raise BackendError(
                f"CUDA: the driver has no {symbol}", fix="It is too old: install one for CUDA 12 or newer."
            ) from None
        function.argtypes = [hint.__metadata__[0] for name, hint in hints.items() if name != "return"]
        function.restype = ctypes.c_int
        self.functions[symbol] = function
        return function

    def function(self, symbol: str) -> Any:
        """A function as the library has it: it returns its code, and no Python runs in a call of it."""
        found = self.functions.get(symbol)
        return self.bind(symbol, getattr(Driver, symbol).__wrapped__) if found is None else found

    def address(self, symbol: str) -> int:
        """Where a function is, for native code that calls it."""
        return ctypes.cast(self.function(symbol), ctypes.c_void_p).value or 0

    def error(self, function: str, code: int) -> DriverError:
        """What a code means, in the driver's words."""
        words = []
        for describe in (self.library.cuGetErrorName, self.library.cuGetErrorString):
            text = ctypes.c_char_p()
            failed = describe(ctypes.c_int(code), ctypes.byref(text))
            words.append(text.value.decode() if not failed and text.value else "unknown")
        return DriverError(function, code, *words)

    # ---- devices and contexts

    @native
    def cuInit(self, flags: UInt) -> None: ...
    @native
    def cuDeviceGetCount(self, count: Out) -> None: ...
    @native
    def cuDeviceGet(self, device: Out, ordinal: Int) -> None: ...
    @native
    def cuDeviceGetName(self, name: Out, length: Int, device: Int) -> None: ...
    @native
    def cuDeviceGetAttribute(self, value: Out, attribute: Int, device: Int) -> None: ...
    @native
    def cuDevicePrimaryCtxRetain(self, context: Out, device: Int) -> None: ...
    @native
    def cuDeviceCanAccessPeer(self, can: Out, device: Int, peer: Int) -> None: ...
    @native
    def cuCtxEnablePeerAccess(self, peer: Handle, flags: UInt) -> None: ...
    @native
    def cuCtxSynchronize(self) -> None: ...
    @native
    def cuCtxSetCurrent(self, context: Handle) -> None: ...

    # ---- memory

    @native
    def cuMemGetInfo_v2(self, free: Out, total: Out) -> None: ...
    @native
    def cuMemAlloc_v2(self, address: Out, nbytes: Size) -> None: ...
    @native
    def cuMemFree_v2(self, address: Address) -> None: ...
    @native
    def cuMemHostAlloc(self, address: Out, nbytes: Size, flags: UInt) -> None: ...
    @native
    def cuMemFreeHost(self, address: Handle) -> None: ...
    @native
    def cuPointerGetAttribute(self, value: Out, attribute: UInt, address: Address) -> None: ...
    @native
    def cuMemcpyHtoDAsync_v2(self, target: Address, source: Handle, nbytes: Size, stream: Handle) -> None: ...
    @native
    def cuMemcpyDtoHAsync_v2(self, target: Handle, source: Address, nbytes: Size, stream: Handle) -> None: ...
    @native
    def cuMemcpyDtoDAsync_v2(self, target: Address, source: Address, nbytes: Size, stream: Handle) -> None: ...
    @native
    def cuMemcpyPeerAsync(
        self, target: Address, here: Handle, source: Address, there: Handle, nbytes: Size, stream: Handle
    ) -> None: ...

    # ---- streams and events

    @native
    def cuStreamCreate(self, stream: Out, flags: UInt) -> None: ...
    @native
    def cuStreamSynchronize(self, stream: Handle) -> None: ...
    @native
    def cuStreamWaitEvent(self, stream: Handle, event: Handle, flags: UInt) -> None: ...
    @native
    def cuEventCreate(self, event: Out, flags: UInt) -> None: ...
    @native
    def cuEventDestroy_v2(self, event: Handle) -> None: ...
    @native
    def cuEventRecord(self, event: Handle, stream: Handle) -> None: ...
    @native
    def cuEventQuery(self, event: Handle) -> None: ...
    @native
    def cuEventSynchronize(self, event: Handle) -> None: ...
    @native
    def cuEventElapsedTime(self, milliseconds: Out, start: Handle, end: Handle) -> None: ...

    # ---- code

    @native
    def cuModuleLoadDataEx(self, module: Out, image: Text, count: UInt, options: Out, values: Out) -> None: ...
    @native
    def cuLinkCreate_v2(self, count: UInt, options: Out, values: Out, state: Out) -> None: ...
    @native
    def cuLinkAddData_v2(
        self, state: Handle, kind: Int, data: Text, nbytes: Size, name: Text, count: UInt, options: Out, values: Out
    ) -> None: ...
    @native
    def cuLinkComplete(self, state: Handle, code: Out, nbytes: Out) -> None: ...
    @native
    def cuLinkDestroy(self, state: Handle) -> None: ...
    @native
    def cuModuleUnload(self, module: Handle) -> None: ...
    @native
    def cuModuleGetFunction(self, function: Out, module: Handle, name: Text) -> None: ...
    @native
    def cuFuncGetAttribute(self, value: Out, attribute: Int, function: Handle) -> None: ...
    @native
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, blocks: Out, function: Handle, threads: Int, shared_bytes: Size
    ) -> None: ...
    @native
    def cuFuncSetAttribute(self, function: Handle, attribute: Int, value: Int) -> None: ...
    @native
    def cuTensorMapEncodeTiled(
        self,
        tensor_map: Handle,
        dtype: Int,
        rank: UInt,
        address: Address,
        sizes: Out,
        strides: Out,
        box: Out,
        steps: Out,
        interleave: Int,
        swizzle: Int,
        promotion: Int,
        fill: Int,
    ) -> None: ...
    @native
    def cuTensorMapEncodeIm2col(
        self,
        tensor_map: Handle,
        dtype: Int,
        rank: UInt,
        address: Address,
        sizes: Out,
        strides: Out,
        lower: Out,
        upper: Out,
        channels: UInt,
        pixels: UInt,
        steps: Out,
        interleave: Int,
        swizzle: Int,
        promotion: Int,
        fill: Int,
    ) -> None: ...
    @native
    def cuLaunchKernel(
        self,
        function: Handle,
        grid_x: UInt,
        grid_y: UInt,
        grid_z: UInt,
        block_x: UInt,
        block_y: UInt,
        block_z: UInt,
        shared_bytes: UInt,
        stream: Handle,
        parameters: Out,
        extra: Out,
    ) -> None: ...

    # ---- graphs of launches

    @native
    def cuGraphCreate(self, graph: Out, flags: UInt) -> None: ...
    @native
    def cuGraphAddKernelNode_v2(self, node: Out, graph: Handle, waits: Out, count: Size, parameters: Out) -> None: ...
    @native
    def cuGraphAddDependencies_v2(self, graph: Handle, earlier: Out, later: Out, kinds: Out, count: Size) -> None: ...
    @native
    def cuGraphInstantiateWithFlags(self, ready: Out, graph: Handle, flags: Long) -> None: ...
    @native
    def cuGraphExecKernelNodeSetParams_v2(self, ready: Handle, node: Handle, parameters: Out) -> None: ...
    @native
    def cuGraphLaunch(self, ready: Handle, stream: Handle) -> None: ...
    @native
    def cuGraphExecDestroy(self, ready: Handle) -> None: ...
    @native
    def cuGraphDestroy(self, graph: Handle) -> None: ...


@functools.cache
def load_driver() -> Driver:
    """The driver of this machine, ready to be used."""
    name = _LIBRARIES.get(sys.platform, "libcuda.so.1")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise DeviceError(
            "CUDA: there is no NVIDIA driver on this machine",
            str(error),
            'Install the driver, or use "CPU"; "NULL:PTX:sm_90a" compiles for a GPU that is not here.',
        ) from None
    driver = Driver(library)
    try:
        driver.cuInit(0)
    except DriverError as error:
        if error.code == NO_DEVICE:
            raise DeviceError("CUDA: there is no NVIDIA GPU that can be used", str(error), NO_GPU) from None
        raise DeviceError("CUDA: the driver cannot be used", str(error), "See whether nvidia-smi works.") from None
    return driver
