//! The designs of this process: those of Ambulator, and those that a program registers before it uses any.

use ambulator_sockets::{Catalogue, Descriptor, RegisterError};
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
static OWN: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());

/// Why something of a user's own cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationError {
    /// The catalogue refuses the design.
    Design(RegisterError),
    /// Designs, or presets, have been used already: what is registered now would be missing in what was read before.
    TooLate(&'static str),
    /// There is a preset of this kind and name already.
    PresetTaken(String),
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistrationError::Design(error) => write!(f, "{error}"),
            RegistrationError::TooLate(what) => {
                write!(f, "{what} are in use already: register your own before anything else")
            }
            RegistrationError::PresetTaken(name) => {
                write!(f, "there is a preset `{name}` already: give this one another name")
            }
        }
    }
}

impl std::error::Error for RegistrationError {}

fn own() -> MutexGuard<'static, Vec<Descriptor>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a design for this process.
///
/// # Errors
/// A name that is taken or cannot be written in specs, a design that fills nothing, or designs in use already.
pub fn register_design(design: Descriptor) -> Result<(), RegistrationError> {
    if CATALOGUE.get().is_some() {
        return Err(RegistrationError::TooLate("designs"));
    }
    let mut own = own();
    let mut all = ambulator_designs::catalogue();
    for design in own.iter().chain([&design]) {
        all.register(design.clone()).map_err(RegistrationError::Design)?;
    }
    own.push(design);
    Ok(())
}

/// All designs. From the first call on, none can be registered.
pub fn catalogue() -> &'static Catalogue {
    CATALOGUE.get_or_init(|| {
        let mut all = ambulator_designs::catalogue();
        for design in own().drain(..) {
            // Refused at its registration, if at all.
            let _ = all.register(design);
        }
        all
    })
}
