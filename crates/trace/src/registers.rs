//! Dependences that come from registers: from which loads each register's value comes.

/// The two latest loads, by their numbers from 1 on (0 is none), the later one first.
pub(crate) type Loads = [u64; 2];

/// For each register of a thread, the two latest loads that its value comes from.
#[derive(Clone, Debug)]
pub(crate) struct Registers([Loads; 256]);

impl Default for Registers {
    fn default() -> Self {
        Registers([[0; 2]; 256])
    }
}

impl Registers {
    /// The loads that a value computed from these registers comes from.
    #[inline]
    pub(crate) fn read(&self, registers: impl IntoIterator<Item = u8>) -> Loads {
        registers.into_iter().fold([0; 2], |all, register| merge(all, self.0[usize::from(register)]))
    }

    /// The register now holds a value that comes from these loads.
    #[inline]
    pub(crate) fn write(&mut self, register: u8, loads: Loads) {
        self.0[usize::from(register)] = loads;
    }
}

/// The two latest of both.
#[inline]
pub(crate) fn merge(a: Loads, b: Loads) -> Loads {
    let (high, low) = if a[0] >= b[0] { (a, b) } else { (b, a) };
    let second = if low[0] == high[0] { low[1] } else { low[0] };
    [high[0], high[1].max(second)]
}

/// The distance from record `number` back to a load; 0 if there is none, or none that reaches so far.
#[inline]
pub(crate) fn distance(number: u64, load: u64) -> u16 {
    match load {
        0 => 0,
        load => u16::try_from(number - load).unwrap_or(0),
    }
}
