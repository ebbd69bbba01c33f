//! The designs of this process: those of Ambulator, and those that a program registers before it uses any
//! design.

use ambulator_base::lock;
use ambulator_sockets::{Catalogue, Descriptor, RegisterError};
use std::fmt;
use std::sync::{Mutex, OnceLock};

static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
static OWN: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());

/// Why a user's design, program or preset cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationError {
    /// The catalogue rejects the design.
    Design(RegisterError),
    /// Designs or presets are already in use: earlier readers would miss the one registered now.
    TooLate(&'static str),
    /// A preset of this name exists already.
    PresetTaken(String),
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistrationError::Design(error) => write!(f, "{error}"),
            RegistrationError::TooLate(what) => {
                write!(f, "{what} are already in use: register your own before anything else")
            }
            RegistrationError::PresetTaken(name) => {
                write!(f, "a preset `{name}` exists already: give this one another name")
            }
        }
    }
}

impl std::error::Error for RegistrationError {}

/// Registers a design for this process.
///
/// # Errors
/// A name that is taken or invalid in specs, a design that fills no socket, or designs already in use.
pub fn register_design(design: Descriptor) -> Result<(), RegistrationError> {
    if CATALOGUE.get().is_some() {
        return Err(RegistrationError::TooLate("designs"));
    }
    let mut own = lock(&OWN);
    let mut all = ambulator_designs::catalogue();
    for design in own.iter().chain([&design]) {
        all.register(design.clone()).map_err(RegistrationError::Design)?;
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
