//! Small files that several processes, on several machines, may write at once: each is there as a whole or not
//! at all, and the last one stays. No locks, which shared folders may not have.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file, on disk when this returns.
pub(super) fn write(path: &Path, contents: &[u8]) -> Result<(), String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = format!(
        ".{name}.{}-{}-{}",
        super::shard::machine_name(),
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );
    let part = path.with_file_name(own);
    let write = || -> io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&part);
        format!("{}: it cannot be written ({error})", path.display())
    })
}
