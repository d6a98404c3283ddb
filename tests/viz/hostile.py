"""A small trace of which every text is an attack on a page that would take it for HTML."""

import json
from pathlib import Path
from typing import Any

from whit.viz.format import file_start, pack

ATTACK = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
GRAPH = (
    "p0 = param 0, float32(4,)\nr0 = range 4, id=0, kind=loop\n%1 = add r0, 0\n%2 = store p0, 1.0:float32, %1\ngroup %2"
)


def write_hostile(path: Path) -> Path:
    records: list[dict[str, Any]] = [
        {"record": "start", "program": [ATTACK], "whit": ATTACK, "target": ATTACK, "cores": 2, "memory": {}},
        {"record": "stack", "id": 1, "frames": [[f"/{ATTACK}.py", 3, ATTACK]], "texts": [ATTACK]},
        {"record": "graph", "id": 0, "digest": "", "text": GRAPH},
        {"record": "graph", "id": 1, "digest": "", "text": ATTACK},
        {"record": "kernel", "id": 0, "name": ATTACK, "graph": 0},
        {"record": "rule", "id": 0, "name": ATTACK, "file": ATTACK, "line": 1, "source": ATTACK},
        {"record": "pass", "kernel": 0, "name": ATTACK, "why": ATTACK, "graph": 1, "ns": 5},
        {"record": "nodes", "nodes": [[1, "range 4, id=0, kind=loop"], [2, "add %1, 0"], [3, ATTACK]]},
        {
            "record": "rewrites",
            "schedule": -1,
            "kernel": 0,
            "pass": ATTACK,
            "steps": [[0, 2, 1], [0, 3, 3], [9, 99, 98]],
        },
        {"record": "rules", "schedule": -1, "kernel": 0, "pass": ATTACK, "counts": [[0, 2, 1, 4]]},
        {
            "record": "compiled",
            "kernel": 0,
            **dict.fromkeys(("explanation", "source", "assembly", "target"), ATTACK),
            **dict.fromkeys(("ops", "bytes_read", "bytes_written", "total", "render_ns", "code_bytes", "code_ns"), 7),
            "stack": 1,
            "at": 50,
        },
        {
            "record": "schedule",
            "id": 0,
            "device": ATTACK,
            "graph": 0,
            "linear": 1,
            "calls": [0],
            "arena": 8,
            "temporaries": [[8, 0, 0, 0, ATTACK]],
            **dict.fromkeys(("ns", "at"), 9),
            "stack": 1,
        },
        {"record": "run", "schedule": 0, "stack": 1, "thread": 1, "times": [60, 20]},
        {"record": "run", "schedule": 0, "stack": 1, "thread": 1, "times": [60, 20], "queue": ATTACK},
        {"record": "copy", "device": ATTACK, "what": ATTACK, "nbytes": 64, "stack": 1, "times": [50, 9]},
        {"record": "memory", "events": [["+", 61, 1, 64, ATTACK, 1, ATTACK], ["=", 1, ATTACK]]},
        {"record": "event", "kind": ATTACK, "at": 70, "stack": 1, "fields": {"name": ATTACK}},
        {"record": "limit", "dropped": ATTACK, "at": 70},
        {"record": "end", "at": 100, "runs_left_out": 0},
    ]
    path.write_bytes(file_start() + pack([json.dumps(record) for record in records]))
    return path
