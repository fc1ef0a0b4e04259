"""The thread pool, as LLVM IR: fork and join over futexes (Linux), in tenths of a microsecond while threads are hot.

`void pliant.pool.run.v1(ptr handle, ptr fn, ptr arg, i64 chunks)` calls `fn(arg, chunk, worker)` once for every chunk
and returns when all calls have. The handle holds the address of a control block (workers wanted, address of the state)
and the most workers this call may use; workers are numbered from 0, the caller. It runs everything itself when the pool
is busy with another caller, so that callers never wait for one another.

How it works. One word of the state holds `generation << 32 | next chunk`; a worker claims a chunk by compare-and-swap
on it, which fails if the work has changed since the worker read what it was. To publish work the caller closes the word
(a new generation with no chunk to claim), writes the work, and opens it. The caller waits until the chunks are done,
not for the workers, so that a worker that sleeps, or was never scheduled, holds nobody up. Idle workers spin for a
while on the generation, then sleep on it; a caller that waits long sleeps as well.

Threads are started when there is work for them. The state is zeroed in a forked child (its memory is marked so), where
no thread but the caller's exists: the child starts its own. Threads block all signals, which stay with the program.
"""

from __future__ import annotations

from ...runtime.layout import POOL_RUN_SYMBOL, WORD, Control

FUTEX_SYSCALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_WAIT_PRIVATE = 128
_WAKE_PRIVATE = 129
_SPINS = {"x86_64": 3000}
_OTHER_SPINS = 10000
_ALL = 2147483647

# Byte offsets in the state; what different threads write stands in different cache lines.
_STATE = 0  # generation << 32 | next chunk
_DONE = 128
_SLEEPERS = 256
_BUSY = 384
_WORK = 512  # fn, arg, chunks, limit
_WAITER = 640  # whether the caller sleeps until the chunks are done
_STARTED = 768  # helper threads that were started
_NEXT_ID = 776


def pool_ir(arch: str) -> str:
    """The module for a processor architecture as LLVM names it; ValueError where there are no futexes."""
    if arch not in FUTEX_SYSCALL:
        raise ValueError(f"no thread pool for {arch}")
    values = {
        "futex": str(FUTEX_SYSCALL[arch]),
        "spins": str(_SPINS.get(arch, _OTHER_SPINS)),
        "pause_declaration": f"declare {_PAUSE[arch][0]}" if arch in _PAUSE else "",
        "pause": f"call {_PAUSE[arch][1]}" if arch in _PAUSE else "",
        # A locked exchange orders everything on x86; elsewhere the work might be seen before the word is closed.
        "fence": "" if arch == "x86_64" else "fence seq_cst",
        "run": POOL_RUN_SYMBOL,
        "state_slot": str(Control.STATE * WORD),
        "threads_slot": str(Control.THREADS * WORD),
        "limit_slot": str(WORD),
        "wait": str(_WAIT_PRIVATE),
        "wake": str(_WAKE_PRIVATE),
        "all": str(_ALL),
        "generation": str(_STATE + 4),
        "done": str(_DONE),
        "sleepers": str(_SLEEPERS),
        "busy": str(_BUSY),
        "work": str(_WORK),
        "waiter": str(_WAITER),
        "started": str(_STARTED),
        "next_id": str(_NEXT_ID),
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return text


_PAUSE = {
    "x86_64": ("void @llvm.x86.sse2.pause()", "void @llvm.x86.sse2.pause()"),
    "aarch64": ("void @llvm.aarch64.hint(i32)", "void @llvm.aarch64.hint(i32 1)"),  # yield
}

_TEXT = """\
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
<pause_declaration>

; Claims and runs chunks until there are none for this worker; returns the last state word it saw.
define internal i64 @work(ptr %state, i64 %worker) nounwind {
entry:
  %done = getelementptr i8, ptr %state, i64 <done>
  %waiter = getelementptr i8, ptr %state, i64 <waiter>
  %fnp = getelementptr i8, ptr %state, i64 <work>
  %argp = getelementptr i64, ptr %fnp, i64 1
  %chunksp = getelementptr i64, ptr %fnp, i64 2
  %limitp = getelementptr i64, ptr %fnp, i64 3
  br label %next
next:
  %word = load atomic i64, ptr %state acquire, align 8
  %chunk = and i64 %word, 4294967295
  %fn = load atomic ptr, ptr %fnp monotonic, align 8
  %arg = load atomic ptr, ptr %argp monotonic, align 8
  %chunks = load atomic i64, ptr %chunksp monotonic, align 8
  %limit = load atomic i64, ptr %limitp monotonic, align 8
  %left = icmp ult i64 %chunk, %chunks
  %allowed = icmp ult i64 %worker, %limit
  %go = and i1 %left, %allowed
  br i1 %go, label %claim, label %leave
claim:
  %taken = add i64 %word, 1
  %swap = cmpxchg ptr %state, i64 %word, i64 %taken acq_rel monotonic
  %won = extractvalue {i64, i1} %swap, 1
  br i1 %won, label %run, label %next
run:
  call void %fn(ptr %arg, i64 %chunk, i64 %worker)
  %before = atomicrmw add ptr %done, i64 1 seq_cst
  %after = add i64 %before, 1
  %last = icmp eq i64 %after, %chunks
  br i1 %last, label %finished, label %next
finished:
  %asleep = load atomic i32, ptr %waiter seq_cst, align 4
  %wake = icmp ne i32 %asleep, 0
  br i1 %wake, label %rouse, label %next
rouse:
  %ignored = call i64 (i64, ...) @syscall(i64 <futex>, ptr %done, i32 <wake>, i32 1, ptr null, ptr null, i32 0)
  br label %next
leave:
  ret i64 %word
}

define internal ptr @worker(ptr %state) nounwind {
entry:
  %idp = getelementptr i8, ptr %state, i64 <next_id>
  %id0 = atomicrmw add ptr %idp, i64 1 monotonic
  %id = add i64 %id0, 1
  %generationp = getelementptr i8, ptr %state, i64 <generation>
  %sleepers = getelementptr i8, ptr %state, i64 <sleepers>
  br label %serve
serve:
  %word = call i64 @work(ptr %state, i64 %id)
  %high = lshr i64 %word, 32
  %seen = trunc i64 %high to i32
  br label %spin
spin:
  %turn = phi i32 [0, %serve], [%turn1, %again]
  %generation = load atomic i32, ptr %generationp acquire, align 4
  %changed = icmp ne i32 %generation, %seen
  br i1 %changed, label %serve, label %again
again:
  <pause>
  %turn1 = add i32 %turn, 1
  %more = icmp ult i32 %turn1, <spins>
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 <futex>, ptr %generationp, i32 <wait>, i32 %seen, ptr null, ptr null, i32 0)
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %serve
}

; Starts the threads that are missing; called by the one caller that holds the pool. Where the system refuses one, the
; others and the caller do its work.
define internal void @start(ptr %state, i64 %wanted) nounwind noinline cold {
entry:
  %thread = alloca i64, align 8
  %blocked = alloca [16 x i64], align 8
  %saved = alloca [16 x i64], align 8
  %startedp = getelementptr i8, ptr %state, i64 <started>
  %first = load i64, ptr %startedp, align 8
  call void @llvm.memset.p0.i64(ptr align 8 %blocked, i8 -1, i64 128, i1 false)
  %m0 = call i32 @pthread_sigmask(i32 2, ptr %blocked, ptr %saved)
  br label %loop
loop:
  %count = phi i64 [%first, %entry], [%count1, %continue]
  %missing = icmp slt i64 %count, %wanted
  br i1 %missing, label %create, label %end
create:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %state)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %detach, label %continue
detach:
  %id = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %id)
  br label %continue
continue:
  %count1 = add i64 %count, 1
  br label %loop
end:
  %m1 = call i32 @pthread_sigmask(i32 2, ptr %saved, ptr null)
  store i64 %wanted, ptr %startedp, align 8
  ret void
}

define void @"<run>"(ptr %handle, ptr %fn, ptr %arg, i64 %chunks) nounwind {
entry:
  %control = load ptr, ptr %handle, align 8
  %handle_limit = getelementptr i8, ptr %handle, i64 <limit_slot>
  %most = load i64, ptr %handle_limit, align 8
  %threadsp = getelementptr i8, ptr %control, i64 <threads_slot>
  %threads = load atomic i64, ptr %threadsp monotonic, align 8
  %limit = call i64 @llvm.smin.i64(i64 %most, i64 %threads)
  %statep = getelementptr i8, ptr %control, i64 <state_slot>
  %state = load ptr, ptr %statep, align 8
  %busy = getelementptr i8, ptr %state, i64 <busy>
  %several = icmp sgt i64 %chunks, 1
  %few = icmp slt i64 %chunks, 2147483648
  %many = icmp sgt i64 %limit, 1
  %p0 = and i1 %several, %few
  %p1 = and i1 %p0, %many
  br i1 %p1, label %try, label %serial
try:
  %swap = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {i32, i1} %swap, 1
  br i1 %free, label %parallel, label %serial
serial:
  %any = icmp sgt i64 %chunks, 0
  br i1 %any, label %one, label %return
one:
  %chunk = phi i64 [0, %serial], [%chunk1, %one]
  call void %fn(ptr %arg, i64 %chunk, i64 0)
  %chunk1 = add i64 %chunk, 1
  %more = icmp slt i64 %chunk1, %chunks
  br i1 %more, label %one, label %return
parallel:
  %startedp = getelementptr i8, ptr %state, i64 <started>
  %started = load i64, ptr %startedp, align 8
  %helpers = add i64 %limit, -1
  %missing = icmp slt i64 %started, %helpers
  br i1 %missing, label %start_threads, label %publish
start_threads:
  call void @start(ptr %state, i64 %helpers)
  br label %publish
publish:
  %word = load atomic i64, ptr %state monotonic, align 8
  %high = lshr i64 %word, 32
  %generation1 = add i64 %high, 1
  %shifted1 = shl i64 %generation1, 32
  %closed = or i64 %shifted1, 4294967295
  %x1 = atomicrmw xchg ptr %state, i64 %closed seq_cst
  <fence>
  %fnp = getelementptr i8, ptr %state, i64 <work>
  %argp = getelementptr i64, ptr %fnp, i64 1
  %chunksp = getelementptr i64, ptr %fnp, i64 2
  %limitp = getelementptr i64, ptr %fnp, i64 3
  %done = getelementptr i8, ptr %state, i64 <done>
  store atomic ptr %fn, ptr %fnp monotonic, align 8
  store atomic ptr %arg, ptr %argp monotonic, align 8
  store atomic i64 %chunks, ptr %chunksp monotonic, align 8
  store atomic i64 %limit, ptr %limitp monotonic, align 8
  store atomic i64 0, ptr %done monotonic, align 8
  %generation2 = add i64 %high, 2
  %opened = shl i64 %generation2, 32
  %x2 = atomicrmw xchg ptr %state, i64 %opened seq_cst
  %sleepers = getelementptr i8, ptr %state, i64 <sleepers>
  %sleeping = load atomic i32, ptr %sleepers seq_cst, align 4
  %wake = icmp ne i32 %sleeping, 0
  br i1 %wake, label %rouse, label %join
rouse:
  ; Threads that may not take part could be woken in place of those that may: wake all where there are such.
  %generationp = getelementptr i8, ptr %state, i64 <generation>
  %useful = add i64 %chunks, -1
  %excess = icmp sgt i64 %started, %helpers
  %enough = call i64 @llvm.umin.i64(i64 %useful, i64 <all>)
  %number = select i1 %excess, i64 <all>, i64 %enough
  %number32 = trunc i64 %number to i32
  %w = call i64 (i64, ...) @syscall(i64 <futex>, ptr %generationp, i32 <wake>, i32 %number32, ptr null, ptr null, i32 0)
  br label %join
join:
  %waiter = getelementptr i8, ptr %state, i64 <waiter>
  %mine = call i64 @work(ptr %state, i64 0)
  br label %wait
wait:
  %turn = phi i32 [0, %join], [%turn1, %spin]
  %count = load atomic i64, ptr %done acquire, align 8
  %all = icmp eq i64 %count, %chunks
  br i1 %all, label %release, label %spin
spin:
  <pause>
  %turn1 = add i32 %turn, 1
  %patient = icmp ult i32 %turn1, <spins>
  br i1 %patient, label %wait, label %doze
doze:
  %x3 = atomicrmw xchg ptr %waiter, i32 1 seq_cst
  %count1 = load atomic i64, ptr %done seq_cst, align 8
  %all1 = icmp eq i64 %count1, %chunks
  br i1 %all1, label %rested, label %rest
rest:
  %low = trunc i64 %count1 to i32
  %q = call i64 (i64, ...) @syscall(i64 <futex>, ptr %done, i32 <wait>, i32 %low, ptr null, ptr null, i32 0)
  br label %doze
rested:
  store atomic i32 0, ptr %waiter monotonic, align 4
  br label %release
release:
  store atomic i32 0, ptr %busy release, align 4
  br label %return
return:
  ret void
}
"""
