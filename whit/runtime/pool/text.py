"""The thread pool in LLVM IR: what runs between kernels has no Python in it.

    void whit_run(pool *, launch *, int64_t count)      runs a list of launches, one after another
    void *whit_worker(pool *)                           the life of a worker: waits, helps, waits; never returns

A launch is {kernel, buffers, variables, total, chunk, threads}; with less than no threads a loop (`repeat`). With more
than one thread its range 0 .. total is handed out in chunks: everybody adds to one counter and runs what lies between
the old and the new value. The caller publishes a job, works like everybody else, closes the job when nothing is left,
and waits only for workers that are inside it. A worker that wakes up late finds the job closed, so that nobody waits
for it. A second caller, from another thread, finds the pool busy and runs its launches alone.

`state` of a job is one word: the number of workers inside, a bit that says it is open, and a serial number above them
which makes a worker's compare-and-exchange fail if the job it looked at is over. Whoever has nothing to do looks at a
word `spins` times and then sleeps on it (futex): workers on `generation`, which each job increments; a caller on
`state`.
"""

from __future__ import annotations

from whit.runtime.pool.kernels import KERNELS
from whit.runtime.pool.repeat import REPEAT
from whit.target import Target

# Places in the pool, in bytes. What different threads write lies on different cache lines.
GENERATION, SLEEPERS = 0, 4
STATE, WAITING = 64, 68
JOB = 128  # kernel, buffers, variables, total, chunk as in a launch; then the most helpers
NEXT = 192
BUSY, SPINS = 256, 260
POOL_BYTES = 320

_SEQUENTIAL = """
define internal void @alone(ptr %launch) nounwind {
  %kernel = load ptr, ptr %launch, align 8
  %at1 = getelementptr i8, ptr %launch, i64 8
  %buffers = load ptr, ptr %at1, align 8
  %at2 = getelementptr i8, ptr %launch, i64 16
  %variables = load ptr, ptr %at2, align 8
  %at3 = getelementptr i8, ptr %launch, i64 24
  %total = load i64, ptr %at3, align 8
  call void %kernel(ptr %buffers, ptr %variables, i64 0, i64 %total)
  ret void
}
"""

_RUN_ALONE = """
define void @whit_run(ptr %pool, ptr %launches, i64 %count) nounwind {
  call void @list(ptr %pool, ptr %launches, i64 %count, i1 false)
  ret void
}

define internal void @together(ptr %pool, ptr %launch) nounwind {
  call void @alone(ptr %launch)
  ret void
}
"""

_RUN = f"""
define void @whit_run(ptr %pool, ptr %launches, i64 %count) nounwind {{
  %busy = getelementptr i8, ptr %pool, i64 {BUSY}
  %taken = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %taken, 1
  call void @list(ptr %pool, ptr %launches, i64 %count, i1 %mine)
  br i1 %mine, label %release, label %out
release:
  store atomic i32 0, ptr %busy release, align 4
  br label %out
out:
  ret void
}}

"""

_LIST = """
define internal void @list(ptr %pool, ptr %launches, i64 %count, i1 %mine) nounwind {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %end
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %launch = getelementptr [48 x i8], ptr %launches, i64 %i
  %at3 = getelementptr i8, ptr %launch, i64 24
  %total = load i64, ptr %at3, align 8
  %at4 = getelementptr i8, ptr %launch, i64 32
  %chunk = load i64, ptr %at4, align 8
  %at5 = getelementptr i8, ptr %launch, i64 40
  %threads = load i64, ptr %at5, align 8
  %is_loop = icmp slt i64 %threads, 0
  br i1 %is_loop, label %repeated, label %kernel
repeated:
  call void @repeat(ptr %pool, ptr %launch, i1 %mine)
  br label %done
kernel:
  %many = icmp sgt i64 %threads, 1
  %parts = icmp sgt i64 %total, %chunk
  %worth = and i1 %many, %parts
  %shared = and i1 %worth, %mine
  br i1 %shared, label %parallel, label %sequential
parallel:
  call void @together(ptr %pool, ptr %launch)
  br label %done
sequential:
  call void @alone(ptr %launch)
  br label %done
done:
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""

_TOGETHER = f"""
define internal void @together(ptr %pool, ptr %launch) nounwind {{
entry:
  %generation = getelementptr i8, ptr %pool, i64 {GENERATION}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %state = getelementptr i8, ptr %pool, i64 {STATE}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %counter = getelementptr i8, ptr %pool, i64 {NEXT}
  %fields = load <5 x i64>, ptr %launch, align 8
  store <5 x i64> %fields, ptr %job, align 8
  %at5 = getelementptr i8, ptr %launch, i64 40
  %threads = load i64, ptr %at5, align 8
  %helpers = add i64 %threads, -1
  %most = trunc i64 %helpers to i32
  %limit = getelementptr i8, ptr %job, i64 40
  store atomic i32 %most, ptr %limit monotonic, align 4
  store atomic i64 0, ptr %counter monotonic, align 8
  %old = load atomic i32, ptr %state monotonic, align 4
  %serial = and i32 %old, -131072
  %open = add i32 %serial, 196608
  store atomic i32 %open, ptr %state release, align 4
  %before = atomicrmw add ptr %generation, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %help
wake:
  call void @futex(ptr %generation, i32 129, i32 %most)
  br label %help
help:
  call void @work(ptr %pool)
  %closed = atomicrmw and ptr %state, i32 -65537 seq_cst
  %at6 = getelementptr i8, ptr %pool, i64 {SPINS}
  %spins = load i32, ptr %at6, align 4
  br label %look
look:
  %n = phi i32 [ %spins, %help ], [ %less, %pause ]
  %now = load atomic i32, ptr %state acquire, align 4
  %inside = and i32 %now, 65535
  %empty = icmp eq i32 %inside, 0
  br i1 %empty, label %end, label %again
again:
  %patient = icmp sgt i32 %n, 0
  br i1 %patient, label %pause, label %sleep
pause:
  call void @relax()
  %less = add i32 %n, -1
  br label %look
sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %still = load atomic i32, ptr %state seq_cst, align 4
  %left = and i32 %still, 65535
  %gone = icmp eq i32 %left, 0
  br i1 %gone, label %awake, label %wait
wait:
  call void @futex(ptr %state, i32 128, i32 %still)
  br label %sleep
awake:
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %end
end:
  ret void
}}

define internal void @work(ptr %pool) nounwind {{
entry:
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %counter = getelementptr i8, ptr %pool, i64 {NEXT}
  %kernel = load ptr, ptr %job, align 8
  %at1 = getelementptr i8, ptr %job, i64 8
  %buffers = load ptr, ptr %at1, align 8
  %at2 = getelementptr i8, ptr %job, i64 16
  %variables = load ptr, ptr %at2, align 8
  %at3 = getelementptr i8, ptr %job, i64 24
  %total = load i64, ptr %at3, align 8
  %at4 = getelementptr i8, ptr %job, i64 32
  %chunk = load i64, ptr %at4, align 8
  br label %take
take:
  %start = atomicrmw add ptr %counter, i64 %chunk monotonic
  %some = icmp slt i64 %start, %total
  br i1 %some, label %run, label %end
run:
  %past = add i64 %start, %chunk
  %inside = icmp slt i64 %past, %total
  %stop = select i1 %inside, i64 %past, i64 %total
  call void %kernel(ptr %buffers, ptr %variables, i64 %start, i64 %stop)
  br label %take
end:
  ret void
}}

define ptr @whit_worker(ptr %pool) nounwind {{
entry:
  %generation = getelementptr i8, ptr %pool, i64 {GENERATION}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %state = getelementptr i8, ptr %pool, i64 {STATE}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %limit = getelementptr i8, ptr %pool, i64 {JOB + 40}
  %at6 = getelementptr i8, ptr %pool, i64 {SPINS}
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %now, %try ], [ %now, %full ], [ %now, %leave ], [ %now, %wake ]
  %spins = load i32, ptr %at6, align 4
  br label %look
look:
  %n = phi i32 [ %spins, %idle ], [ %less, %pause ], [ 0, %sleep ]
  %now = load atomic i32, ptr %generation acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %again, label %first
again:
  %patient = icmp sgt i32 %n, 0
  br i1 %patient, label %pause, label %sleep
pause:
  call void @relax()
  %less = add i32 %n, -1
  br label %look
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @futex(ptr %generation, i32 128, i32 %seen)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %look
first:
  br label %try
try:
  %job = load atomic i32, ptr %state acquire, align 4
  %open = and i32 %job, 65536
  %closed = icmp eq i32 %open, 0
  br i1 %closed, label %idle, label %full
full:
  %inside = and i32 %job, 65535
  %most = load atomic i32, ptr %limit monotonic, align 4
  %room = icmp slt i32 %inside, %most
  br i1 %room, label %enter, label %idle
enter:
  %one = add i32 %job, 1
  %result = cmpxchg ptr %state, i32 %job, i32 %one acq_rel monotonic
  %entered = extractvalue {{ i32, i1 }} %result, 1
  br i1 %entered, label %help, label %try
help:
  call void @work(ptr %pool)
  br label %leave
leave:
  %last = atomicrmw sub ptr %state, i32 1 seq_cst
  %rest = and i32 %last, 131071
  %final = icmp eq i32 %rest, 1
  %asleep = load atomic i32, ptr %waiting seq_cst, align 4
  %sleeps = icmp ne i32 %asleep, 0
  %call = and i1 %final, %sleeps
  br i1 %call, label %wake, label %idle
wake:
  call void @futex(ptr %state, i32 129, i32 1)
  br label %idle
}}
"""

# What `words` and `fields` call: where words are, what they should be; the first that is not, or -1. Later ones are not
# looked at.
_FIRST_OTHER = """
define i64 @whit_first_other(ptr %words, ptr %values, i64 %count) nounwind {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %look, label %same
look:
  %i = phi i64 [ 0, %entry ], [ %next, %equal ]
  %at = getelementptr ptr, ptr %words, i64 %i
  %word = load ptr, ptr %at, align 8
  %now = load i64, ptr %word, align 8
  %at1 = getelementptr i64, ptr %values, i64 %i
  %known = load i64, ptr %at1, align 8
  %is = icmp eq i64 %now, %known
  br i1 %is, label %equal, label %other
equal:
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %look, label %same
same:
  ret i64 -1
other:
  ret i64 %i
}
"""

_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", ""), "aarch64": ("llvm.aarch64.hint", "i32 1")}


def pool_text(target: Target) -> str:
    """The module for a target. Only Linux has workers; elsewhere everything runs on the calling thread."""
    head = f'; thread pool for {target}\ntarget triple = "{target.triple}"\n' + KERNELS
    if target.system != "linux":
        return head + _FIRST_OTHER + _SEQUENTIAL + _RUN_ALONE + _LIST + REPEAT
    name, argument = _PAUSE[target.family]
    leaves = f"""
define internal void @futex(ptr %word, i32 %what, i32 %value) nounwind {{
  %number = sext i32 %what to i64
  %wide = sext i32 %value to i64
  %done = call i64 (i64, ...) @syscall(i64 {_FUTEX_NUMBER[target.family]}, ptr %word, i64 %number, i64 %wide, ptr null)
  ret void
}}

define internal void @relax() nounwind {{
  call void @{name}({argument})
  ret void
}}

declare void @{name}({argument.partition(" ")[0]})
declare i64 @syscall(i64, ...)
"""
    return head + _FIRST_OTHER + _SEQUENTIAL + _RUN + _LIST + REPEAT + _TOGETHER + leaves
