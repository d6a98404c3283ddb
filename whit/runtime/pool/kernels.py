"""Functions that go with the thread pool (`text`), in LLVM IR.

whit_copy       a kernel that copies bytes
whit_group      a kernel that runs launches which may run at once, chunk by chunk: cores that one of them leaves
                idle work on another
whit_each       a loop of calls, for those who cannot wait for Python to make them
"""

from __future__ import annotations

KERNELS = """
define void @whit_copy(ptr %buffers, ptr %variables, i64 %start, i64 %stop) nounwind {
  %target = load ptr, ptr %buffers, align 8
  %at1 = getelementptr i8, ptr %buffers, i64 8
  %source = load ptr, ptr %at1, align 8
  %to = getelementptr i8, ptr %target, i64 %start
  %from = getelementptr i8, ptr %source, i64 %start
  %count = sub i64 %stop, %start
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  ret void
}

; %ends says for each launch how many chunks it has together with those before it
define void @whit_group(ptr %launches, ptr %ends, i64 %start, i64 %stop) nounwind {
entry:
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %chunk, label %out
chunk:
  %i = phi i64 [ %start, %entry ], [ %next, %run ]
  br label %find
find:
  %n = phi i64 [ 0, %chunk ], [ %n1, %skip ]
  %before = phi i64 [ 0, %chunk ], [ %end, %skip ]
  %at = getelementptr i64, ptr %ends, i64 %n
  %end = load i64, ptr %at, align 8
  %inside = icmp slt i64 %i, %end
  br i1 %inside, label %run, label %skip
skip:
  %n1 = add nuw nsw i64 %n, 1
  br label %find
run:
  %launch = getelementptr [48 x i8], ptr %launches, i64 %n
  %kernel = load ptr, ptr %launch, align 8
  %at1 = getelementptr i8, ptr %launch, i64 8
  %buffers = load ptr, ptr %at1, align 8
  %at2 = getelementptr i8, ptr %launch, i64 16
  %variables = load ptr, ptr %at2, align 8
  %at3 = getelementptr i8, ptr %launch, i64 24
  %total = load i64, ptr %at3, align 8
  %at4 = getelementptr i8, ptr %launch, i64 32
  %size = load i64, ptr %at4, align 8
  %number = sub i64 %i, %before
  %first = mul i64 %number, %size
  %past = add i64 %first, %size
  %less = icmp slt i64 %past, %total
  %last = select i1 %less, i64 %past, i64 %total
  call void %kernel(ptr %buffers, ptr %variables, i64 %first, i64 %last)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %chunk, label %out
out:
  ret void
}

; calls a function with three words for each of %count records, up to the first result that is not 0, and returns that
define i32 @whit_each(ptr %function, ptr %records, i64 %count) nounwind {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %record = getelementptr [24 x i8], ptr %records, i64 %i
  %a = load ptr, ptr %record, align 8
  %at1 = getelementptr i8, ptr %record, i64 8
  %b = load ptr, ptr %at1, align 8
  %at2 = getelementptr i8, ptr %record, i64 16
  %c = load ptr, ptr %at2, align 8
  %code = call i32 %function(ptr %a, ptr %b, ptr %c)
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  %fine = icmp eq i32 %code, 0
  %go = and i1 %more, %fine
  br i1 %go, label %loop, label %out
out:
  %result = phi i32 [ 0, %entry ], [ %code, %loop ]
  ret i32 %result
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""
