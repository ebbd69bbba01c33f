//! The part of QEMU's TCG plugin interface (version 1) that the capture uses, declared from its
//! documentation.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The interface version that this plugin requires; QEMU 7.2 offers version 1.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Identifies the loaded plugin.
pub type Id = u64;
/// A translation block during translation.
pub enum Block {}
/// An instruction during translation.
pub enum Instruction {}

/// The callback does not read registers.
pub const NO_REGISTERS: c_int = 0;
/// Loads and stores. (Version 7.2's filter for one of the two is off by one: take both and check each.)
pub const READS_AND_WRITES: c_int = 3;

pub type SyscallCallback = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: extern "C" fn(Id, *mut Block));
    pub fn qemu_plugin_register_vcpu_exit_cb(id: Id, callback: extern "C" fn(Id, c_uint));
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        kinds: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: Id, callback: SyscallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, callback: extern "C" fn(Id, c_uint, i64, i64));
    pub fn qemu_plugin_register_atexit_cb(id: Id, callback: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
}

/// The arguments of `-plugin file.so,key=value,...`.
///
/// # Safety
/// `argv` must point to `argc` C strings.
pub unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    (0..argc.max(0) as usize)
        // SAFETY: the caller vouches for argv.
        .map(|i| unsafe { std::ffi::CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned())
        .collect()
}
