//! The functions that C calls: they check pointers, catch panics, and keep the error's text. The only unsafe
//! code of the workspace's libraries is here.
#![allow(unsafe_code)]

use crate::abi::{self, Config, Counter, Effect, Failure, Info, Status, Translation};
use crate::session::{Request, Session, text};
use ambulator_simulator::hosted::HostedOptions;
use ambulator_simulator::spec::SpecRequest;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// What C's `ambulator_machine` is.
pub struct Handle {
    /// A call is under way.
    busy: AtomicBool,
    session: UnsafeCell<Session>,
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let known = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("the library violated an invariant of its own: {}", known.unwrap_or("no details"))
}

/// Calls `act` with the machine, unless it has stopped or is in use, and keeps the error.
fn call(machine: *mut Handle, act: impl FnOnce(&mut Session) -> Result<(), Failure>) -> i32 {
    // SAFETY: the caller passes null, or what `ambulator_create` returned and `ambulator_destroy` has not
    // freed.
    let Some(handle) = (unsafe { machine.as_ref() }) else { return Status::Argument as i32 };
    if handle.busy.swap(true, Ordering::Acquire) {
        return Status::Busy as i32;
    }
    // SAFETY: `busy` was false and is true now, so this is the only reference to the session until it is
    // false.
    let session = unsafe { &mut *handle.session.get() };
    let result = match &session.stopped {
        Some(why) => Err(Failure { status: Status::Stopped, text: format!("the machine has stopped: {why}") }),
        None => catch_unwind(AssertUnwindSafe(|| act(session)))
            .unwrap_or_else(|panic| Err(Failure { status: Status::Failed, text: said(&*panic) })),
    };
    let status = match result {
        Ok(()) => Status::Ok,
        Err(failure) => {
            session.error = text(&failure.text);
            if matches!(failure.status, Status::Memory | Status::Failed) {
                session.stopped = Some(failure.text);
            }
            failure.status
        }
    };
    handle.busy.store(false, Ordering::Release);
    status as i32
}

/// Writes a result to where the caller wants it.
fn put<T>(to: *mut T, name: &str, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument(format!("`{name}` is a null pointer")));
    }
    // SAFETY: not null; the header says that it points to a writable `T`.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes cycles, if the caller wants them.
fn put_cycles(to: *mut u64, cycles: u64) {
    if !to.is_null() {
        // SAFETY: not null; the header says that it points to a writable `u64`.
        unsafe { to.write(cycles) };
    }
}

/// Checks where a result goes before the machine changes.
fn need<T>(to: *mut T, name: &str) -> Result<(), Failure> {
    if to.is_null() { Err(Failure::argument(format!("`{name}` is a null pointer"))) } else { Ok(()) }
}

/// The size that the caller gives its struct, which is the struct's first member.
fn size_of_struct<T>(to: *const T, name: &str) -> Result<u32, Failure> {
    if to.is_null() {
        return Err(Failure::argument(format!("the pointer to {name} is null")));
    }
    // SAFETY: not null; the header says that it points to a struct that begins with its size.
    Ok(unsafe { to.cast::<u32>().read() })
}

/// A text of the caller; `None` for null.
fn given(at: *const c_char, name: &str) -> Result<Option<String>, Failure> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the header says that it points to a text that ends with NUL.
    match unsafe { CStr::from_ptr(at) }.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Failure::argument(format!("`{name}` is not UTF-8"))),
    }
}

/// A configuration with Rust's types.
fn request(config: *const Config) -> Result<Request, Failure> {
    let size = size_of_struct(config, "ambulator_config")?;
    abi::check_size("ambulator_config", size, size_of::<Config>())?;
    // SAFETY: not null, and at least as large as the type.
    let config = unsafe { config.read() };
    if config.abi_version != abi::ABI_VERSION {
        return Err(Failure::argument(format!(
            "the caller was compiled for version {} of the interface, and this library has version {}",
            config.abi_version,
            abi::ABI_VERSION
        )));
    }
    if config.flags & !(abi::HOST_TLBS | abi::EFFECTS) != 0 {
        return Err(Failure::argument(format!("`flags` is {:#x}, which has flags that do not exist", config.flags)));
    }
    if config.option_count > 0 && config.options.is_null() {
        return Err(Failure::argument("`options` is a null pointer, and `option_count` is not 0"));
    }
    if config.option_count > 10_000 {
        return Err(Failure::argument(format!("`option_count` is {}: at most 10000 options", config.option_count)));
    }
    let mut options = Vec::with_capacity(config.option_count);
    for number in 0..config.option_count {
        // SAFETY: the header says that `options` points to `option_count` texts.
        let at = unsafe { config.options.add(number).read() };
        match given(at, "options")? {
            Some(option) => options.push(option),
            None => return Err(Failure::argument(format!("option {number} is a null pointer"))),
        }
    }
    Ok(Request {
        spec: SpecRequest {
            machine: given(config.machine, "machine")?,
            design: given(config.design, "design")?,
            files: Vec::new(),
            options,
        },
        text: given(config.spec, "spec")?,
        options: HostedOptions {
            cores: config.cores as usize,
            host_tlbs: config.flags & abi::HOST_TLBS != 0,
            effects: config.flags & abi::EFFECTS != 0,
            auto_map: config.auto_map,
            assumed: abi::level(config.assumed_level)?,
        },
    })
}

/// Version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn ambulator_abi_version() -> u32 {
    abi::ABI_VERSION
}

/// Version of the library, as text.
#[unsafe(no_mangle)]
pub extern "C" fn ambulator_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A status in words.
#[unsafe(no_mangle)]
pub extern "C" fn ambulator_status_text(status: i32) -> *const c_char {
    Status::text(status).as_ptr()
}

/// Makes a machine.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ambulator_create(
    config: *const Config,
    out: *mut *mut Handle,
    error: *mut c_char,
    error_size: usize,
) -> i32 {
    let make = || {
        put(out, "machine", std::ptr::null_mut())?;
        let session = Session::new(&request(config)?)?;
        let handle = Handle { busy: AtomicBool::new(false), session: UnsafeCell::new(session) };
        put(out, "machine", Box::into_raw(Box::new(handle)))
    };
    let result = catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|panic| Err(Failure { status: Status::Failed, text: said(&*panic) }));
    let (status, why) = match result {
        Ok(()) => (Status::Ok, String::new()),
        Err(failure) => (failure.status, failure.text),
    };
    if !error.is_null() && error_size > 0 {
        // Cut at the end of a character.
        let why = text(&why).into_string().unwrap_or_default();
        let length = (0..=why.len().min(error_size - 1)).rev().find(|at| why.is_char_boundary(*at)).unwrap_or(0);
        // SAFETY: the header says that `error` has `error_size` bytes; `length` is less.
        unsafe {
            std::ptr::copy_nonoverlapping(why.as_ptr(), error.cast(), length);
            error.add(length).write(0);
        }
    }
    status as i32
}

/// Frees a machine; null is allowed.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ambulator_destroy(machine: *mut Handle) {
    if !machine.is_null() {
        // SAFETY: not null, made by `ambulator_create`; the header says that it is destroyed once.
        let handle = unsafe { Box::from_raw(machine) };
        _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
    }
}

/// Why the latest call that failed did so.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ambulator_error(machine: *const Handle) -> *const c_char {
    // SAFETY: as in `call`.
    let Some(handle) = (unsafe { machine.as_ref() }) else { return c"the pointer to the machine is null".as_ptr() };
    if handle.busy.swap(true, Ordering::Acquire) {
        return Status::text(Status::Busy as i32).as_ptr();
    }
    // SAFETY: as in `call`; the text is changed by the next call only, as the header says.
    let at = unsafe { &*handle.session.get() }.error.as_ptr();
    handle.busy.store(false, Ordering::Release);
    at
}

/// Declares a function that C calls with a machine.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($session:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(machine: *mut Handle $(, $argument: $type)*) -> i32 {
            call(machine, |$session| $body)
        }
    )*};
}

calls! {
    /// What a machine is.
    ambulator_info(session, info: *mut Info) {
        abi::check_size("ambulator_machine_info", size_of_struct(info, "ambulator_machine_info")?, size_of::<Info>())?;
        put(info, "info", session.info())
    }

    /// Translates an access.
    ambulator_translate(session, core: u32, address: u64, access: u32, now: u64, translation: *mut Translation) {
        let size = size_of_struct(translation, "ambulator_translation")?;
        abi::check_size("ambulator_translation", size, size_of::<Translation>())?;
        put(translation, "translation", session.translate(core, 0, address, access, now)?)
    }

    /// Translates an access by an instruction.
    ambulator_translate_at(
        session, core: u32, pc: u64, address: u64, access: u32, now: u64, translation: *mut Translation
    ) {
        let size = size_of_struct(translation, "ambulator_translation")?;
        abi::check_size("ambulator_translation", size, size_of::<Translation>())?;
        put(translation, "translation", session.translate(core, pc, address, access, now)?)
    }

    /// A walk has ended.
    ambulator_complete(session, core: u32, walk: u64, cycle: u64) {
        session.complete(core, walk, cycle)
    }

    /// `mmap`.
    ambulator_map(session, core: u32, start: u64, bytes: u64, rights: u32, kind: u32, os_cycles: *mut u64) {
        session.map(core, start, bytes, rights, kind).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// `munmap`.
    ambulator_unmap(session, core: u32, start: u64, bytes: u64, os_cycles: *mut u64) {
        session.unmap(core, start, bytes).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// `mprotect`.
    ambulator_protect(session, core: u32, start: u64, bytes: u64, rights: u32, os_cycles: *mut u64) {
        session.protect(core, start, bytes, rights).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// `madvise`.
    ambulator_advise(session, core: u32, start: u64, bytes: u64, advice: u32, os_cycles: *mut u64) {
        session.advise(core, start, bytes, advice).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// Touches each page of a range once.
    ambulator_touch(session, core: u32, start: u64, bytes: u64, access: u32, os_cycles: *mut u64) {
        session.touch(core, start, bytes, access).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// Creates a process.
    ambulator_spawn(session, process: *mut u32) {
        need(process, "process")?;
        put(process, "process", session.spawn()?)
    }

    /// `fork`.
    ambulator_fork(session, core: u32, child: *mut u32, os_cycles: *mut u64) {
        need(child, "child")?;
        let (number, cycles) = session.fork(core)?;
        put_cycles(os_cycles, cycles);
        put(child, "child", number)
    }

    /// A process exits.
    ambulator_exit(session, core: u32, process: u32, os_cycles: *mut u64) {
        session.exit(core, process).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// A context switch.
    ambulator_switch(session, core: u32, process: u32, os_cycles: *mut u64) {
        session.switch(core, process).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// Runs the kernel's daemons.
    ambulator_tick(session, core: u32, now: u64, os_cycles: *mut u64) {
        session.tick(core, now).map(|cycles| put_cycles(os_cycles, cycles))
    }

    /// The kernel's truth of an address.
    ambulator_lookup(session, process: u32, address: u64, physical: *mut u64) {
        put(physical, "physical", session.lookup(process, address)?)
    }

    /// How busy main memory is.
    ambulator_set_bus_load(session, permille: u32) {
        session.set_bus_load(permille)
    }

    /// What the operating system did to the hardware.
    ambulator_take_effects(session, effects: *mut *const Effect, count: *mut usize) {
        need(effects, "effects")?;
        need(count, "count")?;
        let taken = session.take_effects();
        put(effects, "effects", taken.as_ptr())?;
        put(count, "count", taken.len())
    }

    /// All counters.
    ambulator_counters(session, counters: *mut *const Counter, count: *mut usize) {
        need(counters, "counters")?;
        need(count, "count")?;
        let all = session.counters();
        put(counters, "counters", all.as_ptr())?;
        put(count, "count", all.len())
    }

    /// One counter.
    ambulator_counter_value(session, name: *const c_char, value: *mut u64) {
        let Some(name) = given(name, "name")? else { return Err(Failure::argument("`name` is a null pointer")) };
        put(value, "value", session.counter(&name)?)
    }

    /// Sets all counters to zero.
    ambulator_reset_counters(session) {
        session.reset_counters();
        Ok(())
    }

    /// Checks the kernel's books.
    ambulator_check(session) {
        session.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Box<Handle> {
        let spec = SpecRequest { options: vec!["memory.bytes=256MiB".into()], ..SpecRequest::default() };
        let session = Session::new(&Request { spec, text: None, options: HostedOptions::default() }).unwrap();
        Box::new(Handle { busy: AtomicBool::new(false), session: UnsafeCell::new(session) })
    }

    fn error(handle: *const Handle) -> String {
        // SAFETY: the handle is alive, and the text is copied before the next call.
        unsafe { CStr::from_ptr(ambulator_error(handle)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_an_error_and_stops_the_machine() {
        let mut handle = handle();
        let machine: *mut Handle = &raw mut *handle;
        assert_eq!(call(machine, |_| panic!("on the way")), Status::Failed as i32);
        assert!(error(machine).contains("on the way"), "{}", error(machine));
        assert_eq!(call(machine, |_| unreachable!("it has stopped")), Status::Stopped as i32);
        assert!(error(machine).contains("has stopped") && error(machine).contains("on the way"));
    }

    #[test]
    fn a_call_during_a_call_is_rejected() {
        let mut handle = handle();
        let machine: *mut Handle = &raw mut *handle;
        let mut inner = 0;
        let outer = call(machine, |_| {
            inner = call(machine, |_| unreachable!("the machine is in use"));
            Err(Failure::argument("only this call"))
        });
        assert_eq!((outer, inner), (Status::Argument as i32, Status::Busy as i32));
        assert_eq!(error(machine), "only this call");
        assert_eq!(call(machine, |_| Ok(())), Status::Ok as i32, "a wrong argument does not stop it");
    }
}
