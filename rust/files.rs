//! Renames that refuse to replace, and renames that exchange: what makes an output appear in one step.
//!
//! A check whether a name is free and a rename are two steps, and another program may take the name between
//! them. Linux does both in one (`renameat2`). Where it cannot, on other systems and on some network file
//! systems, the functions say `Unsupported` and the caller takes another way. Tests make Linux take it by
//! RINGBCO_SYSTEM=darwin, as `python/ringbco/io/system.py` says.

use std::io;
use std::path::Path;

/// Renames `from` to `to`; an error of kind `AlreadyExists` where there is anything of that name.
///
/// # Errors
/// `Unsupported` where the file system cannot do it in one step, else what the system says.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    system::rename(from, to, system::NO_REPLACE)
}

/// Exchanges the names of two files or folders in one step; both must exist.
///
/// # Errors
/// `Unsupported` where the file system cannot do it, else what the system says.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    system::rename(one, other, system::EXCHANGE)
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    use std::io;
    use std::path::Path;

    pub(super) const NO_REPLACE: RenameFlags = RenameFlags::NOREPLACE;
    pub(super) const EXCHANGE: RenameFlags = RenameFlags::EXCHANGE;

    pub(super) fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
        if std::env::var_os("RINGBCO_SYSTEM").is_some_and(|system| system != "linux") {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        renameat_with(CWD, from, CWD, to, flags).map_err(|error| match error {
            // A file system without the flag says EINVAL, an old kernel ENOSYS.
            Errno::INVAL | Errno::NOSYS | Errno::NOTSUP => io::Error::from(io::ErrorKind::Unsupported),
            other => io::Error::from(other),
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::path::Path;

    pub(super) const NO_REPLACE: () = ();
    pub(super) const EXCHANGE: () = ();

    pub(super) fn rename(_from: &Path, _to: &Path, _flags: ()) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
