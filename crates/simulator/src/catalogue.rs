//! The designs of this process: those of Ambulator, and those that a program registers.

use ambulator_base::{RegisterError, RegisterReason, lock};
use ambulator_sockets::{Catalogue, Descriptor};
use std::sync::{Mutex, PoisonError, RwLock};

/// The catalogue, once it is in use. One that a later registration replaces stays valid: whoever asked for it
/// keeps it.
static CATALOGUE: RwLock<Option<&'static Catalogue>> = RwLock::new(None);
/// Those of [`register_design`].
static OWN: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());
/// Those of [`register_interactively`].
static INTERACTIVE: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());

/// Whether designs of another crate are registered. Those that are registered interactively do not count: what
/// they compute is not stored.
pub fn has_registered_designs() -> bool {
    !lock(&OWN).is_empty()
}

/// The catalogue in use.
fn in_use() -> Option<&'static Catalogue> {
    *CATALOGUE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Ambulator's designs and further ones.
fn with<'d>(further: impl IntoIterator<Item = &'d Descriptor>) -> Result<Catalogue, RegisterError> {
    let mut all = ambulator_designs::catalogue();
    for design in further {
        all.register(design.clone())?;
    }
    Ok(all)
}

/// Registers a design for this process.
///
/// # Errors
/// A name that is taken or invalid in specs, a design that fills no socket, or designs already in use.
pub fn register_design(design: Descriptor) -> Result<(), RegisterError> {
    if in_use().is_some() {
        return Err(RegisterError::new("design", design.name, RegisterReason::TooLate));
    }
    let mut own = lock(&OWN);
    own.push(design);
    with(own.iter()).map(drop).inspect_err(|_| drop(own.pop()))
}

/// Registers a design without settings at any time, for interactive use; it replaces a design of that name that
/// was registered before, though not one of Ambulator's. Presets and the tree of settings are not extended: a
/// spec gets the design by its field. Each call keeps a catalogue, a few KiB, for the life of the process.
///
/// # Errors
/// A name that is taken or invalid in specs, a design that fills no socket, or one with settings.
pub fn register_interactively(design: Descriptor) -> Result<(), RegisterError> {
    if design.has_settings() {
        let lacks = "has settings: register it before designs are in use";
        return Err(RegisterError::new("design", design.name, RegisterReason::Incomplete(lacks)));
    }
    let own = lock(&OWN);
    let mut interactive = lock(&INTERACTIVE);
    let mut next: Vec<Descriptor> = interactive.iter().filter(|other| other.name != design.name).cloned().collect();
    next.push(design);
    let all = with(own.iter().chain(&next))?;
    *interactive = next;
    *CATALOGUE.write().unwrap_or_else(PoisonError::into_inner) = Some(Box::leak(Box::new(all)));
    Ok(())
}

/// All designs. After the first call, designs with settings can no longer be registered.
pub fn catalogue() -> &'static Catalogue {
    if let Some(catalogue) = in_use() {
        return catalogue;
    }
    let own = lock(&OWN);
    let mut slot = CATALOGUE.write().unwrap_or_else(PoisonError::into_inner);
    // Errors were reported at registration.
    slot.get_or_insert_with(|| Box::leak(Box::new(with(own.iter()).unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ambulator_sockets::Socket;

    fn design(name: &'static str, about: &'static str) -> Descriptor {
        Descriptor::new(name, about, "").fills(Socket::PageTable, about)
    }

    #[test]
    fn a_design_in_use_is_replaced_and_one_of_ambulators_is_not() {
        let before = catalogue();
        assert!(register_design(design("late-table", "one")).is_err());
        register_interactively(design("late-table", "one")).unwrap();
        register_interactively(design("late-table", "two")).unwrap();
        assert_eq!(catalogue().find("late-table").map(|design| design.about), Some("two"));
        assert!(before.find("late-table").is_none(), "whoever held the catalogue keeps it");
        let first = before.designs()[0].name;
        let taken = register_interactively(design(first, "mine")).unwrap_err();
        assert_eq!(taken.reason, RegisterReason::Taken);
        assert_ne!(catalogue().find(first).map(|design| design.about), Some("mine"));
    }
}
