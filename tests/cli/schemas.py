"""What `--json` of each command prints: a schema is a type, a tuple of choices, [of each element] or {of each key}."""

from typing import Any

FOLDER = {"name": str, "folder": str, "files": int, "bytes": int, "limit_bytes": (int, None)}
NUMBER = (int, float)
CHOICE = {"kind": str, "lanes": {"r0": int}, "unroll": {}, "order": [str], "core": (str, None)}  # of the tests

SCHEMAS: dict[str, dict[str, Any]] = {
    "info": {
        "python": {"version": str, "executable": str, "system": str},
        "packages": {"numpy": (str, None), "ml_dtypes": (str, None), "llvmlite": (str, None)},
        "processor": (
            None,
            {
                "target": str,
                "device": str,
                "renderer": str,
                "arch": str,
                "family": str,
                "vector_bytes": int,
                "vector_registers": int,
                "features": [str],
                "cores": int,
                "l1_bytes": int,
                "l2_bytes": int,
                "l3_bytes": int,
                "system": str,
                "threads": int,
            },
        ),
        "default_device": str,
        "devices": [{"name": str, "what": str, "usable": bool}],
        "caches": [FOLDER],
        "check": (
            None,
            {
                "ok": bool,
                "quick": bool,
                "cases": [{"name": str, "error": (float, None), "ok": bool}],
                "matmul_size": int,
                "matmul_gflops": float,
                "copy_bytes": int,
                "copy_gbs": float,
                "sum_gbs": float,
                "seconds": float,
            },
        ),
        "next": [{"what": str, "why": str}],
    },
    "doctor": {
        "ok": bool,
        "counts": {"ok": int, "note": int, "warning": int, "problem": int},
        "findings": [{"topic": str, "level": str, "what": str, "fix": str}],
    },
    "bench": {
        "device": str,
        "quick": bool,
        "roof": {"copy_gbs": float, "peak_gflops": float, "threads": int},
        "results": [
            {
                "name": str,
                "ok": bool,
                "error": (float, None),
                "tolerance": float,
                "failure": (str, None),
                "ms": (float, None),
                "gflops": (float, None),
                "gbs": (float, None),
                "limit": str,
                "roof_percent": (float, None),
            }
        ],
    },
    "tune": {
        "program": (str, None),
        "beam": int,
        "seconds": float,
        "stopped": bool,
        "kernels": [
            {
                "kernel": str,
                "status": str,
                "default_us": (float, None),
                "best_us": (float, None),
                "gain": (float, None),
                "measured": int,
                "wrong": [str],
                "failed": int,
                "skipped": str,
                "choice": (CHOICE, None),
            }
        ],
    },
    "cache size": {"in_use": bool, "caches": [FOLDER]},
    "cache list": {**FOLDER, "entries": [{"name": str, "bytes": int, "used": float, "file": str}]},
    "cache list tuned": {
        **FOLDER,
        "entries": [
            {
                "file": str,
                "used": float,
                "kernel": (str, None),
                "target": (str, None),
                "default_seconds": (float, None),
                "seconds": (float, None),
                "choice": (CHOICE, None),
            }
        ],
    },
    "cache clear": {"folder": str, "removed_files": int, "removed_bytes": int, "left_files": int},
    "replay": {"file": str, "device": str, "failed": bool, "failure": (str, None)},
    "onnx": {
        "file": str,
        "producer": str,
        "opsets": dict,
        "inputs": dict,
        "outputs": dict,
        "nodes": int,
        "graphs": int,
        "operators": dict,
        "parameters": int,
        "parameter_bytes": int,
        "run": ({"first_seconds": float, "seconds": float, "programs": int, "peak_bytes": int}, None),
        "profile": (
            {
                "seconds": float,
                "kernel_seconds": float,
                "unwatched_seconds": float,
                "nodes": [
                    {
                        "node": str,
                        "operator": str,
                        "seconds": float,
                        "kernels": int,
                        "fused": [str],
                        "floor_seconds": (float, None),
                    }
                ],
                "operators": dict,
            },
            None,
        ),
        "compare": ({"worst": dict, "seconds": float, "same": bool, "first_node": (str, None)}, None),
    },
    "error": {"error": {"kind": str, "message": str}},
}


def differences(value: Any, schema: Any, place: str = "") -> list[str]:
    """Where a value is not what the schema says."""
    if isinstance(schema, tuple):
        found = [differences(value, choice, place) for choice in schema]
        return [] if [] in found else found[-1]
    if schema is None:
        return [] if value is None else [f"{place} is no null"]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [text for i, item in enumerate(value) for text in differences(item, schema[0], f"{place}[{i}]")]
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        odd = [f"{place}.{key} is {'missing' if key in schema else 'unknown'}" for key in sorted({*value} ^ {*schema})]
        both = [key for key in schema if key in value]
        return odd + [text for key in both for text in differences(value[key], schema[key], f"{place}.{key}")]
    return [] if type(value) is schema else [f"{place} is {value!r}, no {schema.__name__}"]


def document(name: str) -> dict[str, Any]:
    """The schema of all that is printed for a command."""
    return {"command": str, "schema": int, "whit": str, **SCHEMAS[name]}
