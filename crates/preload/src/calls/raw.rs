//! System calls, past the C library and everything that stands in front of it. They leave `errno` alone.

use core::arch::asm;
use core::ffi::c_long;

/// Does a system call. An error is its number, below zero.
///
/// # Safety
///
/// As the system call demands.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: c_long, [one, two, three, four, five, six]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers of the kernel's convention, and those that it changes; the rest is the caller's contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") one, in("rsi") two, in("rdx") three, in("r10") four, in("r8") five, in("r9") six,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Does a system call. An error is its number, below zero.
///
/// # Safety
///
/// As the system call demands.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: c_long, [one, two, three, four, five, six]: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the registers of the kernel's convention, and those that it changes; the rest is the caller's contract.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") one as isize => result,
            in("x1") two, in("x2") three, in("x3") four, in("x4") five, in("x5") six,
            options(nostack)
        );
    }
    result
}

/// As [`call`], with the error told apart.
///
/// # Safety
///
/// As for [`call`].
pub(crate) unsafe fn try_call(number: c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    // SAFETY: by the contract of this function.
    let result = unsafe { call(number, arguments) };
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}
