//! The designs of this process: those of Ambulator, and those that a program registers before it uses any
//! design.

use ambulator_base::{RegisterError, RegisterReason, lock};
use ambulator_sockets::{Catalogue, Descriptor};
use std::sync::{Mutex, OnceLock};

static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
static OWN: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());

/// Registers a design for this process.
///
/// # Errors
/// A name that is taken or invalid in specs, a design that fills no socket, or designs already in use.
pub fn register_design(design: Descriptor) -> Result<(), RegisterError> {
    if CATALOGUE.get().is_some() {
        return Err(RegisterError::new("design", design.name, RegisterReason::TooLate));
    }
    let mut own = lock(&OWN);
    let mut all = ambulator_designs::catalogue();
    for design in own.iter().chain([&design]) {
        all.register(design.clone())?;
    }
    own.push(design);
    Ok(())
}

/// All designs. After the first call, no design can be registered.
pub fn catalogue() -> &'static Catalogue {
    CATALOGUE.get_or_init(|| {
        let mut all = ambulator_designs::catalogue();
        for design in lock(&OWN).drain(..) {
            // Errors were reported at registration.
            let _ = all.register(design);
        }
        all
    })
}

/// Whether designs of other crates are registered.
pub fn has_registered_designs() -> bool {
    catalogue().designs().len() > ambulator_designs::catalogue().designs().len()
}
