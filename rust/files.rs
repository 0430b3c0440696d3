//! Renames files atomically, without replacing or by exchange, so that an output appears in one step.
//!
//! Checking that a name is free and renaming are two steps, and another program may take the name in between. Linux
//! does both in one (`renameat2`). Where that is not available, on other systems and on some network file systems, the
//! functions return `Unsupported` and the caller falls back. Tests force the fallback on Linux with
//! RINGBCO_SYSTEM=darwin, see `python/ringbco/io/system.py`.

use std::io;
use std::path::Path;

/// Renames `from` to `to`. Fails with `AlreadyExists` if the name is taken.
///
/// # Errors
/// `Unsupported` if the file system cannot do it in one step, else the error of the system.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    system::rename(from, to, system::NO_REPLACE)
}

/// Exchanges the names of two files or folders in one step; both must exist.
///
/// # Errors
/// `Unsupported` if the file system cannot do it, else the error of the system.
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
            // A file system without the flag returns EINVAL, an old kernel ENOSYS.
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
