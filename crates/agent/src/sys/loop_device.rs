//! Loop devices: files that stand for disks.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};

// The numbers of linux/loop.h, which the binding of the C library does not have.
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;

/// The device lets go of its file when nobody uses it any more.
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// How often another process may be quicker to take a free device.
const TRIES: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    file: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// Returns the path of a loop device.
pub(crate) fn path(number: u32) -> String {
    format!("/dev/loop{number}")
}

/// Lets a free device stand for a file, until nobody uses it. Returns its number and a use of it.
pub(crate) fn attach(file: &File) -> io::Result<(u32, OwnedFd)> {
    let control = open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..TRIES {
        // SAFETY: the request takes no argument and returns a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = u32::try_from(number).map_err(|_| io::Error::last_os_error())?;
        let device = open(path(number), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: it has only numbers, for which zero is a value.
        let mut config = unsafe { MaybeUninit::<Config>::zeroed().assume_init() };
        config.file = file.as_raw_fd().unsigned_abs();
        config.info.flags = LO_FLAGS_AUTOCLEAR;
        // SAFETY: the structure has the form that the kernel reads and outlives the call.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        if done == 0 {
            return Ok((number, device));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Opens a device where it stands for this very file.
pub(crate) fn open_of(number: u32, (device, inode): (u64, u64)) -> Option<OwnedFd> {
    let own = open(path(number), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut info = MaybeUninit::<Info>::zeroed();
    // SAFETY: the kernel writes a structure of this form, which outlives the call; zeros are one.
    let info = unsafe {
        if libc::ioctl(own.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) < 0 {
            return None;
        }
        info.assume_init()
    };
    ((info.device, info.inode) == (device, inode)).then_some(own)
}
