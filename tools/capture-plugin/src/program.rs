//! A program that `execve` substitutes for the running one.

use crate::{Capture, host};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The system call's number.
pub const EXECVE: i64 = 59;

/// Bytes at a program's start that identify it: an ELF header, or a script's first line.
const HEAD: usize = 256;
const EXECUTABLE: c_int = 1;

unsafe extern "C" {
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
}

/// The target of an `execve` that will succeed, as far as can be checked.
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    /// The program's own array, passed on unchanged.
    environment: *const *const c_char,
}

/// How a program can be run.
enum Kind {
    /// By the emulator, with this path and these arguments before the program's own.
    Emulated(CString, Vec<CString>),
    /// Natively.
    Native,
}

impl Program {
    /// The target of a call with these arguments; `None` if it will fail.
    ///
    /// # Safety
    /// They must be the program's arguments: a string, and two null-terminated arrays of strings, or null.
    pub unsafe fn of_call([path, arguments, environment]: [u64; 3]) -> Option<Program> {
        if path == 0 {
            return None;
        }
        // SAFETY: the caller vouches for the addresses.
        let path = unsafe { CStr::from_ptr(path as *const c_char) }.to_owned();
        // SAFETY: our own string.
        if unsafe { access(path.as_ptr(), EXECUTABLE) } != 0 || !as_path(&path).is_file() {
            return None;
        }
        let mut all = Vec::new();
        if arguments != 0 {
            let mut at = arguments as *const *const c_char;
            // SAFETY: a null-terminated array.
            unsafe {
                while !(*at).is_null() {
                    all.push(CStr::from_ptr(*at).to_owned());
                    at = at.add(1);
                }
            }
        }
        Some(Program { path, arguments: all, environment: environment as *const *const c_char })
    }

    /// Replaces the process with an emulator that captures the program with the same settings. Returns if
    /// that fails; the program then runs natively.
    pub fn run_under_capture(&self, capture: &Capture) {
        let Kind::Emulated(path, before) = self.kind() else { return };
        let Some(words) = self.emulator(capture, &path, &before) else { return };
        let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // SAFETY: our own strings, a null-terminated array of them, and the program's own environment.
        unsafe { execve(c"/proc/self/exe".as_ptr(), pointers.as_ptr(), self.environment) };
    }

    /// An ELF file for x86-64, or a script whose interpreter is one.
    fn kind(&self) -> Kind {
        let mut head = [0; HEAD];
        let read =
            |path: &Path, head: &mut [u8; HEAD]| File::open(path).and_then(|mut file| file.read(head)).unwrap_or(0);
        let len = read(as_path(&self.path), &mut head);
        if is_x86_64(&head[..len]) {
            return Kind::Emulated(self.path.clone(), Vec::new());
        }
        let Some(line) = head[..len].strip_prefix(b"#!").and_then(|rest| rest.split(|&byte| byte == b'\n').next())
        else {
            return Kind::Native;
        };
        let line = line.trim_ascii();
        let (interpreter, argument) = match line.iter().position(|byte| b" \t".contains(byte)) {
            Some(at) => (&line[..at], line[at..].trim_ascii()),
            None => (line, &line[..0]),
        };
        let mut first = [0; HEAD];
        let len = read(Path::new(OsStr::from_bytes(interpreter)), &mut first);
        let Ok(path) = CString::new(interpreter) else { return Kind::Native };
        if !is_x86_64(&first[..len]) {
            return Kind::Native;
        }
        let argument = (!argument.is_empty()).then(|| CString::new(argument).ok()).flatten();
        Kind::Emulated(path, argument.into_iter().chain([self.path.clone()]).collect())
    }

    /// The emulator's command line: the same options, for another program.
    fn emulator(&self, capture: &Capture, path: &CStr, before: &[CString]) -> Option<Vec<CString>> {
        let own = std::fs::read("/proc/self/cmdline").ok()?;
        let own: Vec<&[u8]> = own.split(|&byte| byte == 0).collect();
        let after = |option: &[u8]| own.iter().position(|word| *word == option).and_then(|at| own.get(at + 1));
        let plugin = after(b"-plugin")?.split(|&byte| byte == b',').next()?;
        let name = as_path(&self.path).file_name().map_or("program".into(), |name| name.to_string_lossy().into_owned());
        let mut settings = plugin.to_vec();
        settings.extend_from_slice(capture.settings_for(&name).as_bytes());
        let mut words: Vec<Vec<u8>> = vec![own.first()?.to_vec()];
        if let Some(cpu) = after(b"-cpu") {
            words.extend([b"-cpu".to_vec(), cpu.to_vec()]);
        }
        words.extend([b"-plugin".to_vec(), settings]);
        // A script's interpreter gets its own name; a program the name it was called by.
        if before.is_empty()
            && let Some(first) = self.arguments.first()
        {
            words.extend([b"-0".to_vec(), first.to_bytes().to_vec()]);
        }
        words.push(path.to_bytes().to_vec());
        words.extend(before.iter().chain(self.arguments.iter().skip(1)).map(|word| word.to_bytes().to_vec()));
        words.into_iter().map(|word| CString::new(word).ok()).collect()
    }
}

impl Capture {
    /// The plugin's settings for a program that this process becomes: this capture's, but with its own name.
    fn settings_for(&self, name: &str) -> String {
        let name = name.replace(',', ",,");
        let mut text =
            format!(",wire={},recorder={},origin=2,name={name},follow=on", self.target.wire, host::recorder());
        let numbers = [("skip", self.skip), ("take", self.take), ("every", self.every), ("window", self.window)];
        for (key, value) in numbers {
            text.push_str(&format!(",{key}={value}"));
        }
        text
    }
}

fn as_path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

fn is_x86_64(head: &[u8]) -> bool {
    head.len() >= 20 && head.starts_with(b"\x7fELF\x02") && head[18..20] == [62, 0]
}
