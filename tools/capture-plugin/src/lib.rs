//! A QEMU user-mode plugin that sends a program's execution, or windows of it, to a recorder:
//! `ambulator capture`, which writes a trace, or `ambulator run --live`, which simulates it.
//!
//! ```sh
//! qemu-x86_64 -cpu Haswell-noTSX,erms=off \
//!     -plugin libambulator_capture.so,wire=/proc/123/fd/3,recorder=123,skip=1000000,take=5000000 program arguments
//! ```
//!
//! Plugin and recorder share memory (`ambulator_trace::wire`), so that what the program has done is not lost
//! when it crashes or is killed. The first `skip` instructions leave no records, but all VM events, and
//! `Touch` events for the pages that they touched, in the program's order of first touch (loads, stores,
//! fetches, and the buffers of `read`). Then `take` instructions are recorded: loads and stores with sizes,
//! true register dependences (not through memory), conditional and indirect branches with outcomes. With
//! `every=N,window=M`, M of every N instructions are recorded. After `take` instructions the plugin ends the
//! program.
//!
//! Every thread of the program collects its own records and submits some thousands at a time, with a `Switch`
//! event where threads change. Their order is therefore approximate; but before an event that unmaps pages or
//! removes permissions, every running thread submits its records. A forked child runs unrecorded, or with
//! `follow` has its own part of the memory. A program started by `execve` runs unrecorded, or with `follow`
//! under its own emulator and plugin. No process outlives the recorder. Windows begin and end at blocks of
//! the program; with several threads they are exact to some thousand instructions.
//!
//! Limits: pages that only the kernel touches, in system calls other than `read`, count as touched at the
//! program's own first access; calls, returns and direct jumps have no branch record.

mod decode;
mod host;
mod output;
mod program;
mod qemu;
mod slot;
mod system_calls;
mod thread;
mod wire;

use decode::Block;
use iced_x86::InstructionInfoFactory;
use output::{Output, Target};
use qemu::Id;
use slot::{Own, Slot, state};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use system_calls::{Outcome, Process};
use thread::{CHUNK, Tracer};
use wire::Chunk;

/// The most concurrent threads of a program, as the emulator numbers them.
const THREADS: usize = 1024;
/// Instructions between two checks of the instruction clock.
const QUANTUM: u64 = 2000;

const SKIPPING: u8 = 0;
const RECORDING: u8 = 1;
const OVER: u8 = 2;

/// State shared by all threads.
struct Capture {
    target: Target,
    skip: u64,
    take: u64,
    every: u64,
    window: u64,
    follow: bool,
    /// Under a lock: the stream, the heap, decoding, and the window.
    shared: Mutex<Shared>,
    mode: AtomicU8,
    /// Incremented to make every running thread submit its records.
    epoch: AtomicU64,
    threads: Vec<Slot>,
}

struct Shared {
    output: Option<Output>,
    process: Process,
    factory: InstructionInfoFactory,
    executed: u64,
    recorded: u64,
    /// `executed` at which the mode changes next.
    change_at: u64,
}

static CAPTURE: AtomicPtr<Capture> = AtomicPtr::new(std::ptr::null_mut());

fn capture() -> &'static Capture {
    // SAFETY: set once in `qemu_plugin_install`, and once in a forked child, from a leaked box.
    unsafe { &*CAPTURE.load(Ordering::Acquire) }
}

impl Capture {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread's slot and its private state; `None` if the capture is over.
    ///
    /// # Safety
    /// As for [`Slot::own`]: called once by each callback for `cpu`, on its thread.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn own(&self, cpu: c_uint) -> Option<(&Slot, &mut Own)> {
        if self.mode.load(Ordering::Relaxed) == OVER {
            return None;
        }
        let slot = self.threads.get(cpu as usize)?;
        // SAFETY: the caller's promise.
        let own = unsafe { slot.own() };
        if own.is_none() {
            // A forked child may run only blocks that its parent translated.
            let mut shared = self.lock();
            self.begin_trace(&mut shared);
            let region = shared.output.as_ref()?.region();
            drop(shared);
            slot.pending.store(0, Ordering::SeqCst);
            slot.mode.store(self.mode.load(Ordering::SeqCst), Ordering::SeqCst);
            slot.epoch.store(self.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
            slot.state.store(state::RUNNING, Ordering::SeqCst);
            let tracer = Tracer::new(Chunk::new(&region, cpu as usize));
            *own = Some(Box::new(Own { tracer, limit: 0, arguments: [0; 6] }));
        }
        own.as_deref_mut().map(|own| (slot, own))
    }

    /// Starts the trace, unless it has started or is over.
    fn begin_trace(&self, shared: &mut Shared) {
        if shared.output.is_none() && self.mode.load(Ordering::SeqCst) != OVER {
            shared.output = Some(Output::new(&self.target).unwrap_or_else(|e| host::stop(&e)));
        }
    }

    fn submit(&self, cpu: c_uint, own: &mut Own, shared: &mut Shared) {
        let count = own.tracer.records.len() as u64;
        if let Some(output) = &mut shared.output {
            output.records(cpu, own.tracer.first, &mut own.tracer.records);
        } else {
            own.tracer.records.drain(drop, || ());
        }
        own.tracer.first += count;
    }

    /// Adds the thread's executed instructions to the total. At the end of the process another thread does
    /// so; what the slot's thread adds meanwhile is not counted.
    fn count(&self, cpu: usize, slot: &Slot, shared: &mut Shared) {
        let pending = slot.pending.swap(0, Ordering::SeqCst);
        shared.executed += pending;
        if let Some(output) = &shared.output {
            output.region().set_executed(shared.executed);
            output.region().clear_uncounted(cpu);
        }
        if slot.mode.load(Ordering::SeqCst) == RECORDING {
            shared.recorded += pending;
        }
    }

    /// Accounts for this thread's executed instructions, and updates the window.
    #[cold]
    fn account(&self, cpu: c_uint, slot: &Slot, own: &mut Own) {
        let mut shared = self.lock();
        self.count(cpu as usize, slot, &mut shared);
        if shared.output.as_ref().is_some_and(|output| output.region().must_end()) {
            host::exit(74);
        }
        if shared.executed >= shared.change_at {
            self.change_mode(&mut shared);
        }
        let (mode, before) = (self.mode.load(Ordering::SeqCst), slot.mode.load(Ordering::SeqCst));
        if mode != before {
            if before == RECORDING {
                // The last block counts; its successor is unknown.
                own.tracer.end(0);
                self.submit(cpu, own, &mut shared);
            }
            own.tracer.forget();
            slot.mode.store(mode, Ordering::SeqCst);
        }
        if mode == OVER {
            self.finish(&mut shared, false);
            host::exit(0);
        }
        own.limit = QUANTUM.min(shared.change_at - shared.executed);
    }

    fn change_mode(&self, shared: &mut Shared) {
        let now = self.mode.load(Ordering::SeqCst);
        if shared.recorded >= self.take {
            self.mode.store(OVER, Ordering::SeqCst);
            return;
        }
        let periodic = self.every > 0;
        let window = if periodic { self.window.min(self.take - shared.recorded) } else { self.take - shared.recorded };
        let next = if now == RECORDING { SKIPPING } else { RECORDING };
        if next == RECORDING {
            if let Some(output) = &mut shared.output {
                output.open_window();
            }
            shared.change_at = shared.executed.saturating_add(window);
        } else {
            shared.change_at = shared.executed.saturating_add(self.every.saturating_sub(self.window).max(1));
        }
        self.mode.store(next, Ordering::SeqCst);
    }

    /// Waits until every other running thread has submitted its records so far, or the capture is over.
    fn gather(&self, cpu: c_uint) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        for (number, slot) in self.threads.iter().enumerate() {
            if number == cpu as usize {
                continue;
            }
            while slot.state.load(Ordering::SeqCst) == state::RUNNING
                && slot.epoch.load(Ordering::SeqCst) < epoch
                && self.mode.load(Ordering::SeqCst) != OVER
            {
                std::thread::yield_now();
            }
        }
    }

    /// A thread starts a block.
    #[inline(always)]
    fn execute(&self, cpu: c_uint, slot: &Slot, own: &mut Own, block: &'static Block) {
        if slot.pending.load(Ordering::Relaxed) >= own.limit {
            self.account(cpu, slot, own);
        }
        own.tracer.records.set_uncounted(slot.executed(block.instructions.len() as u64));
        if slot.mode.load(Ordering::Relaxed) == RECORDING {
            own.tracer.begin(block);
            if own.tracer.records.len() >= CHUNK {
                self.submit(cpu, own, &mut self.lock());
            }
        }
    }

    /// Submits the records and acknowledges the epoch, if that was requested.
    #[inline(always)]
    fn heed(&self, cpu: c_uint, slot: &Slot, own: &mut Own) {
        let epoch = self.epoch.load(Ordering::Relaxed);
        if slot.epoch.load(Ordering::Relaxed) != epoch {
            self.submit(cpu, own, &mut self.lock());
            own.tracer.forget_pages();
            slot.epoch.store(epoch, Ordering::SeqCst);
        }
    }

    /// A thread makes a system call. During the call no thread waits for it: it has submitted its records.
    fn enter_call(&self, cpu: c_uint, slot: &Slot, own: &mut Own, number: i64, arguments: [u64; 6]) {
        own.arguments = arguments;
        own.tracer.end(0);
        self.submit(cpu, own, &mut self.lock());
        slot.state.store(state::BLOCKED, Ordering::SeqCst);
        if let Some(event) = system_calls::before(number, arguments) {
            self.gather(cpu);
            if let Some(output) = &mut self.lock().output {
                output.event(cpu, event);
            }
        } else if system_calls::ends_process(number) {
            self.gather(cpu);
        }
    }

    /// Ends the trace of an exiting process. Threads have submitted their records up to the exit call. Later
    /// records of running threads are lost, as their work is: they belong to those threads and are not
    /// accessed from here.
    fn end_process(&self) {
        let mut shared = self.lock();
        for (cpu, slot) in self.threads.iter().enumerate() {
            if slot.state.load(Ordering::SeqCst) != state::ABSENT {
                self.count(cpu, slot, &mut shared);
            }
        }
        self.finish(&mut shared, true);
    }

    fn finish(&self, shared: &mut Shared, exited: bool) {
        self.mode.store(OVER, Ordering::SeqCst);
        if let Some(mut output) = shared.output.take() {
            output.finish(exited);
        }
    }
}

extern "C" fn on_block(cpu: c_uint, data: *mut c_void) {
    let capture = capture();
    // SAFETY: a callback for `cpu`, on its thread.
    let Some((slot, own)) = (unsafe { capture.own(cpu) }) else { return };
    capture.heed(cpu, slot, own);
    // SAFETY: `data` is the leaked `Block` given at registration.
    let block: &'static Block = unsafe { &*data.cast::<Block>() };
    capture.execute(cpu, slot, own, block);
}

extern "C" fn on_access(cpu: c_uint, info: u32, va: u64, data: *mut c_void) {
    let capture = capture();
    // SAFETY: a callback for `cpu`, on its thread.
    let Some((slot, own)) = (unsafe { capture.own(cpu) }) else { return };
    // SAFETY: plain functions of the emulator on the value that it just passed.
    let (shift, store) = unsafe { (qemu::qemu_plugin_mem_size_shift(info), qemu::qemu_plugin_mem_is_store(info)) };
    if slot.mode.load(Ordering::Relaxed) == RECORDING {
        own.tracer.access(data as usize, va, 1 << shift.min(6), store);
    } else {
        let last = va + (1 << shift) - 1;
        for at in [va, last] {
            if own.tracer.is_new_page(at, store)
                && let Some(output) = &mut capture.lock().output
            {
                output.touch(at, store);
            }
        }
    }
}

extern "C" fn on_translation(_id: Id, block: *mut qemu::Block) {
    let capture = capture();
    if capture.mode.load(Ordering::Relaxed) == OVER {
        return;
    }
    let mut shared = capture.lock();
    capture.begin_trace(&mut shared);
    // SAFETY: QEMU passes a block that is valid during this call, as are its instructions' bytes.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block);
        let mut instructions = Vec::with_capacity(count);
        let mut first = 0;
        for index in 0..count {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let pc = qemu::qemu_plugin_insn_vaddr(instruction);
            let len = qemu::qemu_plugin_insn_size(instruction);
            let bytes = std::slice::from_raw_parts(qemu::qemu_plugin_insn_data(instruction), len);
            if index == 0 {
                first = pc;
            }
            instructions.push(decode::decode(pc, bytes, &mut shared.factory));
            qemu::qemu_plugin_register_vcpu_mem_cb(
                instruction,
                on_access,
                qemu::NO_REGISTERS,
                qemu::READS_AND_WRITES,
                index as *mut c_void,
            );
        }
        // A block is translated when it is first reached: its page's first fetch.
        if let Some(output) = &mut shared.output {
            output.touch(first, false);
        }
        let decoded = Box::leak(Box::new(Block { pc: first, instructions }));
        let data: *mut c_void = std::ptr::from_mut(decoded).cast();
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, qemu::NO_REGISTERS, data);
    }
}

#[allow(clippy::too_many_arguments)]
extern "C" fn on_call(
    _id: Id,
    cpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _g: u64,
    _h: u64,
) {
    let capture = capture();
    // SAFETY: a callback for `cpu`, on its thread.
    let Some((slot, own)) = (unsafe { capture.own(cpu) }) else { return };
    if number == program::EXECVE {
        own.arguments = [a, b, c, d, e, f];
        // SAFETY: the program's addresses are the emulator's (its guest base is 0); wrong ones are the
        // program's mistake.
        let Some(next) = (unsafe { program::Program::of_call([a, b, c]) }) else { return };
        capture.enter_call(cpu, slot, own, number, [a, b, c, d, e, f]);
        capture.gather(cpu);
        capture.end_process();
        if capture.follow {
            next.run_under_capture(capture);
        }
        return;
    }
    capture.enter_call(cpu, slot, own, number, [a, b, c, d, e, f]);
}

extern "C" fn on_return(_id: Id, cpu: c_uint, number: i64, result: i64) {
    let capture = capture();
    // SAFETY: a callback for `cpu`, on its thread.
    let Some((slot, own)) = (unsafe { capture.own(cpu) }) else { return };
    let takes_away = system_calls::revokes_access(number);
    if takes_away {
        capture.gather(cpu);
        own.tracer.forget_pages();
    }
    {
        let mut shared = capture.lock();
        let outcome = shared.process.end(number, own.arguments, result);
        if let Some(output) = &mut shared.output {
            match outcome {
                Some(Outcome::Events(events)) => events.into_iter().for_each(|event| output.event(cpu, event)),
                Some(Outcome::Copied { start, bytes }) => {
                    let pages = start >> 12..=(start + bytes.max(1) - 1) >> 12;
                    pages.for_each(|page| output.touch(page << 12, true));
                }
                None => {}
            }
        }
    }
    slot.epoch.store(capture.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
    slot.state.store(state::RUNNING, Ordering::SeqCst);
}

extern "C" fn on_thread_end(_id: Id, cpu: c_uint) {
    let capture = capture();
    // SAFETY: a callback for `cpu`, on its thread.
    let Some((slot, own)) = (unsafe { capture.own(cpu) }) else { return };
    own.tracer.end(0);
    let mut shared = capture.lock();
    capture.count(cpu as usize, slot, &mut shared);
    capture.submit(cpu, own, &mut shared);
    drop(shared);
    // SAFETY: as above; `own` is not used after this. Another thread may get this number.
    unsafe { slot.clear() };
}

extern "C" fn on_exit(_id: Id, _data: *mut c_void) {
    capture().end_process();
}

/// In a forked child: the trace stays the parent's. The child runs unrecorded, or starts its own trace.
extern "C" fn in_child() {
    let parent = capture();
    let follows = parent.follow && parent.mode.load(Ordering::SeqCst) != OVER;
    let mut target = parent.target.clone();
    target.origin = 1;
    target.name.clear();
    let child = Capture::new(target, parent);
    if follows {
        // Another thread may have held the lock during the fork, so the child gets a new one. The process
        // state is the same.
        if let Ok(shared) = parent.shared.try_lock() {
            child.lock().process = shared.process.child();
        }
    } else {
        child.mode.store(OVER, Ordering::SeqCst);
    }
    CAPTURE.store(Box::into_raw(Box::new(child)), Ordering::Release);
    host::watch_recorder();
}

impl Capture {
    /// A capture with the settings of another.
    fn new(target: Target, like: &Capture) -> Capture {
        Capture::with(target, like.skip, like.take, like.every, like.window, like.follow)
    }

    fn with(target: Target, skip: u64, take: u64, every: u64, window: u64, follow: bool) -> Capture {
        Capture {
            target,
            skip,
            take,
            every,
            window,
            follow,
            shared: Mutex::new(Shared {
                output: None,
                process: Process::default(),
                factory: InstructionInfoFactory::new(),
                executed: 0,
                recorded: 0,
                change_at: skip,
            }),
            mode: AtomicU8::new(SKIPPING),
            epoch: AtomicU64::new(0),
            threads: (0..THREADS).map(|_| Slot::new()).collect(),
        }
    }
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// QEMU's entry point: reads `wire=`, `recorder=`, `origin=`, `name=`, `skip=`, `take=`, `every=`, `window=`,
/// `follow=`. Returns 0, or 1 if an argument is wrong.
///
/// # Safety
/// Called by QEMU, which passes `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let mut target = Target::default();
    let mut recorder = 0;
    let (mut skip, mut take, mut every, mut window, mut follow) = (0, u64::MAX / 4, 0, 0, false);
    // SAFETY: QEMU passes argc arguments.
    for argument in unsafe { qemu::arguments(argc, argv) } {
        let (key, value) = argument.split_once('=').unwrap_or((&argument, ""));
        let number = value.parse::<u64>();
        match (key, number) {
            ("wire", _) => target.wire = value.into(),
            ("name", _) => target.name = value.into(),
            ("origin", Ok(n)) => target.origin = n,
            ("recorder", Ok(n)) => recorder = n as u32,
            ("follow", _) => follow = matches!(value, "on" | "true" | "1"),
            ("skip", Ok(n)) => skip = n,
            ("take", Ok(n)) => take = n,
            ("every", Ok(n)) => every = n,
            ("window", Ok(n)) => window = n,
            _ => {
                eprintln!(
                    "ambulator capture: \"{argument}\" is not wire=PATH, recorder=PROCESS, origin=0..2, name=TEXT, \
                     skip=COUNT, take=COUNT, every=COUNT, window=COUNT or follow=on: plugin and command are of different \
                     versions; run `make capture-plugin` again"
                );
                return 1;
            }
        }
    }
    if every > 0 && !(1..=every).contains(&window) {
        eprintln!("ambulator capture: window={window} must be 1 to every={every}");
        return 1;
    }
    if target.wire.is_empty() {
        eprintln!("ambulator capture: wire=PATH is missing; `ambulator capture` runs this plugin");
        return 1;
    }
    if recorder != 0 {
        host::end_with_recorder(recorder);
    }
    let capture = Capture::with(target, skip, take, every, window, follow);
    CAPTURE.store(Box::into_raw(Box::new(capture)), Ordering::Release);
    // SAFETY: registration with QEMU's id; the callbacks have the declared types. The fork handler is a
    // function that lives as long as the process.
    unsafe {
        pthread_atfork(None, None, Some(in_child));
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu::qemu_plugin_register_vcpu_exit_cb(id, on_thread_end);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, on_call);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
    0
}

#[cfg(test)]
mod tests;
