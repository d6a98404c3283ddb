"""Loops of launches in LLVM IR: lists that run again and again, while pointers of their kernels move.

A launch that is a loop says in `threads` of which kind, and in `buffers` where its record is, words of 8 bytes:

    count, reversed, moves, how many, finals, how many, launches, how many, other launches, how many, where the bool is

    SCAN        the launches, so often
    WHILE       the other launches; while the bool is true the launches, and the others once more. The count is -1
    COND        the launches if the bool is true, else the others

A move is {target, first, even, odd, stride}: before step t the word `target` becomes `first` if t is 0 and there is
one; else even or odd, by how many steps come after it, plus stride times t, or times count - 1 - t if it is reversed. A
final is {target, first, even, odd, stride, bytes}: what a move would point to after the last step is copied to the
target.
"""

from __future__ import annotations

(COUNT, REVERSED, MOVES, MOVE_COUNT, FINALS, FINAL_COUNT, LAUNCHES, LAUNCH_COUNT, OTHERS, OTHER_COUNT, BOOL) = range(11)
RECORD_WORDS = 11
MOVE_WORDS, FINAL_WORDS = 5, 6
SCAN, WHILE, COND = -1, -2, -3
KINDS = {"scan": SCAN, "while": WHILE, "cond": COND}


def _field(name: str, place: int, kind: str = "i64") -> str:
    """Loads a word of the record."""
    return f"""  %at_{name} = getelementptr i64, ptr %record, i64 {place}
  %{name} = load {kind}, ptr %at_{name}, align 8
"""


REPEAT = f"""
; where a move points to before step %t; %from has its first, even, odd and stride
define internal i64 @moved(ptr %from, i64 %t, i64 %count, i64 %reversed) nounwind {{
entry:
  %first = load i64, ptr %from, align 8
  %is_first = icmp eq i64 %t, 0
  %has_first = icmp ne i64 %first, 0
  %begins = and i1 %is_first, %has_first
  br i1 %begins, label %begin, label %go_on
begin:
  ret i64 %first
go_on:
  %last = sub i64 %count, 1
  %left = sub i64 %last, %t
  %bit = and i64 %left, 1
  %place = add i64 %bit, 1
  %at = getelementptr i64, ptr %from, i64 %place
  %base = load i64, ptr %at, align 8
  %at3 = getelementptr i64, ptr %from, i64 3
  %stride = load i64, ptr %at3, align 8
  %backwards = icmp ne i64 %reversed, 0
  %step = select i1 %backwards, i64 %left, i64 %t
  %along = mul i64 %step, %stride
  %result = add i64 %base, %along
  ret i64 %result
}}

define internal void @move(ptr %record, i64 %t) nounwind {{
entry:
{_field("count", COUNT)}{_field("reversed", REVERSED)}{_field("moves", MOVES, "ptr")}{_field("many", MOVE_COUNT)}
  %any = icmp sgt i64 %many, 0
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %each = getelementptr [{8 * MOVE_WORDS} x i8], ptr %moves, i64 %i
  %target = load ptr, ptr %each, align 8
  %from = getelementptr i8, ptr %each, i64 8
  %where = call i64 @moved(ptr %from, i64 %t, i64 %count, i64 %reversed)
  store i64 %where, ptr %target, align 8
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %many
  br i1 %more, label %loop, label %out
out:
  ret void
}}

define internal void @finish(ptr %record, i64 %t) nounwind {{
entry:
{_field("count", COUNT)}{_field("reversed", REVERSED)}{_field("finals", FINALS, "ptr")}{_field("many", FINAL_COUNT)}
  %any = icmp sgt i64 %many, 0
  br i1 %any, label %loop, label %out
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %each = getelementptr [{8 * FINAL_WORDS} x i8], ptr %finals, i64 %i
  %target = load i64, ptr %each, align 8
  %from = getelementptr i8, ptr %each, i64 8
  %where = call i64 @moved(ptr %from, i64 %t, i64 %count, i64 %reversed)
  %at5 = getelementptr i8, ptr %each, i64 40
  %bytes = load i64, ptr %at5, align 8
  %is_there = icmp eq i64 %where, %target
  br i1 %is_there, label %done, label %copy
copy:
  %to = inttoptr i64 %target to ptr
  %source = inttoptr i64 %where to ptr
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %source, i64 %bytes, i1 false)
  br label %done
done:
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %many
  br i1 %more, label %loop, label %out
out:
  ret void
}}

define internal void @repeat(ptr %pool, ptr %launch, i1 %mine) nounwind {{
entry:
  %at1 = getelementptr i8, ptr %launch, i64 8
  %record = load ptr, ptr %at1, align 8
  %at5 = getelementptr i8, ptr %launch, i64 40
  %kind = load i64, ptr %at5, align 8
{_field("count", COUNT)}{_field("launches", LAUNCHES, "ptr")}{_field("launch_count", LAUNCH_COUNT)}
{_field("others", OTHERS, "ptr")}{_field("other_count", OTHER_COUNT)}{_field("bool", BOOL, "ptr")}
  switch i64 %kind, label %scan [ i64 {WHILE}, label %while
                                  i64 {COND}, label %cond ]
cond:
  %truth = load i8, ptr %bool, align 1
  %holds = icmp ne i8 %truth, 0
  br i1 %holds, label %yes, label %no
yes:
  call void @list(ptr %pool, ptr %launches, i64 %launch_count, i1 %mine)
  ret void
no:
  call void @list(ptr %pool, ptr %others, i64 %other_count, i1 %mine)
  ret void
scan:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %step, label %end
step:
  %t = phi i64 [ 0, %scan ], [ %next, %step ]
  call void @move(ptr %record, i64 %t)
  call void @list(ptr %pool, ptr %launches, i64 %launch_count, i1 %mine)
  %next = add nuw nsw i64 %t, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %end
while:
  %n = phi i64 [ 0, %entry ], [ %n1, %body ]
  call void @move(ptr %record, i64 %n)
  call void @list(ptr %pool, ptr %others, i64 %other_count, i1 %mine)
  %test = load i8, ptr %bool, align 1
  %goes_on = icmp ne i8 %test, 0
  br i1 %goes_on, label %body, label %end
body:
  call void @list(ptr %pool, ptr %launches, i64 %launch_count, i1 %mine)
  %n1 = add nuw nsw i64 %n, 1
  br label %while
end:
  %steps = phi i64 [ 0, %scan ], [ %count, %step ], [ %n, %while ]
  call void @finish(ptr %record, i64 %steps)
  ret void
}}
"""
