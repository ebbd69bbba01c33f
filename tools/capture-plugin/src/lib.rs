//! A QEMU user-mode plugin that writes a window of a program's execution as an Ambulator trace.
//!
//! ```sh
//! AMBULATOR_DETAIL="how it was made" qemu-x86_64 -cpu Haswell-noTSX,erms=off \
//!     -plugin libambulator_capture.so,out=program.amb,name=program,skip=1000000,take=5000000 program arguments
//! ```
//!
//! The first `skip` instructions leave no records, but all their VM events, and `Touch` events for the pages
//! that they touched, in the program's order of first touch (loads, stores, fetches, and what `read` copies
//! into). Then `take` instructions are recorded: loads and stores with sizes, true register dependences (not
//! through memory), conditional and indirect branches with outcomes. Then the program is ended. One process,
//! one thread: other threads leave no records.
//!
//! Limits: an iteration of a `rep` instruction counts as an instruction; pages that only the kernel touches
//! in other system calls than `read` are first touched when the program does; calls, returns and direct jumps
//! have no branch record.

mod decode;
mod qemu;
mod system_calls;
mod window;

use ambulator_base::{FRAME_SHIFT, ProgramIdentity, SourceError, VirtAddr, VmEvent};
use ambulator_workloads::trace::{FirstTouches, TraceHeader, TraceWriter, TraceWriterSpec};
use decode::Decoded;
use iced_x86::InstructionInfoFactory;
use qemu::{Block, Id};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::BufWriter;
use std::sync::atomic::{AtomicPtr, Ordering};
use window::Window;

/// All that the plugin knows. QEMU calls the plugin of a single-threaded program from one thread.
struct Capture {
    out: String,
    name: String,
    skip: u64,
    take: u64,
    level: i32,
    executed: u64,
    start: Option<Vec<VmEvent>>,
    /// Events of the skipped part, until the window opens.
    events: Vec<VmEvent>,
    touches: FirstTouches,
    window: Option<Window<BufWriter<File>>>,
    factory: InstructionInfoFactory,
    calls: system_calls::SystemCalls,
    done: bool,
}

static CAPTURE: AtomicPtr<Capture> = AtomicPtr::new(std::ptr::null_mut());

fn capture() -> &'static mut Capture {
    // SAFETY: set once in `qemu_plugin_install` from a leaked box before any callback is registered.
    // Callbacks of the first virtual CPU, the only ones that come here, run on one thread and do not nest.
    unsafe { &mut *CAPTURE.load(Ordering::Relaxed) }
}

fn stop(error: &SourceError) -> ! {
    eprintln!("ambulator capture: {error}");
    std::process::abort()
}

impl Capture {
    fn event(&mut self, event: VmEvent) -> Result<(), SourceError> {
        if let Some(window) = &mut self.window {
            window.retire(None)?;
            return window.writer.event(event);
        }
        if let Some(run) = self.touches.event(&event) {
            self.events.push(run);
        }
        self.events.push(event);
        Ok(())
    }

    /// A range that the kernel or the fetch unit touches.
    fn touch(&mut self, start: u64, bytes: u64, write: bool) -> Result<(), SourceError> {
        if let Some(window) = &mut self.window {
            if write {
                window.retire(None)?;
                let from = start >> FRAME_SHIFT << FRAME_SHIFT;
                let len = (start + bytes - from).next_multiple_of(1 << FRAME_SHIFT);
                window.writer.event(VmEvent::Touch {
                    start: VirtAddr(from),
                    len,
                    write,
                })?;
            }
        } else {
            for page in start >> FRAME_SHIFT..=(start + bytes.max(1) - 1) >> FRAME_SHIFT {
                if let Some(run) = self.touches.touch(VirtAddr(page << FRAME_SHIFT), 1, write) {
                    self.events.push(run);
                }
            }
        }
        Ok(())
    }

    fn open_window(&mut self) -> Result<(), SourceError> {
        let file = File::create(&self.out)
            .map_err(|e| SourceError::new(format!("{}: cannot be created: {e}", self.out)))?;
        let identity = ProgramIdentity {
            name: self.name.clone(),
            detail: std::env::var("AMBULATOR_DETAIL").unwrap_or_default(),
            footprint: self.touches.pages() << FRAME_SHIFT,
            digest: 0,
        };
        let header = TraceHeader {
            identity,
            start: self.start.take().unwrap_or_default(),
            ..TraceHeader::default()
        };
        let spec = TraceWriterSpec {
            level: self.level,
            va_bits: 48,
        };
        let mut writer = TraceWriter::new(BufWriter::new(file), header, &spec)?;
        self.events.extend(self.touches.take_run());
        for event in std::mem::take(&mut self.events) {
            writer.event(event)?;
        }
        writer.event(VmEvent::RegionBegin)?;
        self.window = Some(Window::new(writer));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        if self.done {
            return Ok(());
        }
        self.done = true;
        let Some(mut window) = self.window.take() else {
            eprintln!(
                "ambulator capture: the program ended after {} instructions, before the {} that were to be skipped",
                self.executed, self.skip
            );
            return Ok(());
        };
        window.retire(None)?;
        window.writer.event(VmEvent::RegionEnd)?;
        eprintln!(
            "ambulator capture: {} records of {} instructions after {} skipped, {} pages touched before",
            window.records,
            self.executed - self.skip,
            self.skip,
            self.touches.pages()
        );
        window.writer.finish()?;
        Ok(())
    }
}

extern "C" fn on_instruction(cpu: c_uint, data: *mut c_void) {
    if cpu != 0 {
        return;
    }
    let capture = capture();
    if capture.window.is_none() {
        if capture.executed < capture.skip || capture.done {
            capture.executed += 1;
            return;
        }
        capture.open_window().unwrap_or_else(|e| stop(&e));
    }
    // SAFETY: `data` is the leaked `Decoded` given at registration.
    let decoded: &'static Decoded = unsafe { &*data.cast::<Decoded>() };
    if let Some(window) = &mut capture.window {
        window.execute(decoded).unwrap_or_else(|e| stop(&e));
    }
    if capture.executed == capture.skip + capture.take {
        capture.finish().unwrap_or_else(|e| stop(&e));
        std::process::exit(0);
    }
    capture.executed += 1;
}

extern "C" fn on_access(cpu: c_uint, info: u32, va: u64, _data: *mut c_void) {
    if cpu != 0 {
        return;
    }
    // SAFETY: plain functions of the emulator on the value that it just gave.
    let (shift, store) = unsafe {
        (
            qemu::qemu_plugin_mem_size_shift(info),
            qemu::qemu_plugin_mem_is_store(info),
        )
    };
    let capture = capture();
    match &mut capture.window {
        Some(window) => window.access(va, 1 << shift.min(6), store),
        None => {
            if let Some(run) = capture.touches.touch(VirtAddr(va), 1 << shift, store) {
                capture.events.push(run);
            }
        }
    }
}

extern "C" fn on_translation(_id: Id, block: *mut Block) {
    let capture = capture();
    if capture.start.is_none() && capture.window.is_none() && !capture.done {
        capture.start = Some(system_calls::address_space());
    }
    // SAFETY: QEMU gives a block that is valid during this call; each instruction's bytes are valid with it.
    unsafe {
        for index in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let pc = qemu::qemu_plugin_insn_vaddr(instruction);
            let len = qemu::qemu_plugin_insn_size(instruction);
            let bytes = std::slice::from_raw_parts(qemu::qemu_plugin_insn_data(instruction), len);
            let decoded = Box::leak(Box::new(decode::decode(pc, bytes, &mut capture.factory)));
            // A block is translated when it is first reached: its page's first fetch.
            if index == 0 {
                capture.touch(pc, 1, false).unwrap_or_else(|e| stop(&e));
            }
            let data: *mut c_void = std::ptr::from_mut(decoded).cast();
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                instruction,
                on_instruction,
                qemu::NO_REGISTERS,
                data,
            );
            qemu::qemu_plugin_register_vcpu_mem_cb(
                instruction,
                on_access,
                qemu::NO_REGISTERS,
                qemu::READS_AND_WRITES,
                std::ptr::null_mut(),
            );
        }
    }
}

extern "C" fn on_call(
    _id: Id,
    _cpu: c_uint,
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
    capture().calls.begin(number, [a, b, c, d, e, f]);
}

extern "C" fn on_return(_id: Id, _cpu: c_uint, number: i64, result: i64) {
    let capture = capture();
    let outcome = capture.calls.end(number, result);
    let done = match outcome {
        Some(system_calls::Outcome::Event(event)) => capture.event(event),
        Some(system_calls::Outcome::Copied { start, bytes }) => capture.touch(start, bytes, true),
        None => Ok(()),
    };
    done.unwrap_or_else(|e| stop(&e));
}

extern "C" fn on_exit(_id: Id, _data: *mut c_void) {
    capture().finish().unwrap_or_else(|e| stop(&e));
}

/// QEMU's entry: reads `out=`, `name=`, `skip=`, `take=`, `level=`. Returns 0, or 1 when an argument is
/// wrong.
///
/// # Safety
/// Called by QEMU, which gives `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let mut capture = Capture {
        out: "program.amb".into(),
        name: "program".into(),
        skip: 0,
        take: u64::MAX / 2,
        level: 19,
        executed: 0,
        start: None,
        events: Vec::new(),
        touches: FirstTouches::default(),
        window: None,
        factory: InstructionInfoFactory::new(),
        calls: system_calls::SystemCalls::default(),
        done: false,
    };
    // SAFETY: QEMU gives argc arguments.
    for argument in unsafe { qemu::arguments(argc, argv) } {
        let (key, value) = argument.split_once('=').unwrap_or((&argument, ""));
        let number = value.parse();
        match (key, number) {
            ("out", _) => capture.out = value.into(),
            ("name", _) => capture.name = value.into(),
            ("skip", Ok(n)) => capture.skip = n,
            ("take", Ok(n)) => capture.take = n,
            ("level", Ok(n)) => capture.level = n as i32,
            _ => {
                eprintln!(
                    "ambulator capture: \"{argument}\" is not out=FILE, name=TEXT, skip=COUNT, take=COUNT or level=1..22"
                );
                return 1;
            }
        }
    }
    CAPTURE.store(Box::into_raw(Box::new(capture)), Ordering::Relaxed);
    // SAFETY: registration with the id that QEMU gave; the callbacks have the declared types.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, on_call);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
    0
}
