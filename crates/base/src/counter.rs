//! Counters with a name, a unit and a meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Units of counters and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Occurrences.
    Events,
    /// Core clock cycles.
    Cycles,
    /// Bytes.
    Bytes,
    /// 4 KiB pages.
    Pages,
    /// Instructions.
    Instructions,
    /// A dimensionless ratio.
    Ratio,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Events => "events",
            Unit::Cycles => "cycles",
            Unit::Bytes => "bytes",
            Unit::Pages => "pages",
            Unit::Instructions => "instructions",
            Unit::Ratio => "ratio",
        })
    }
}

/// The description of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterDef {
    /// Name within its group, in snake case.
    pub name: &'static str,
    /// Unit of its value.
    pub unit: Unit,
    /// It depends on when things happen, not only on what happens. Without time it has another value, or 0.
    pub timed: bool,
    /// It is a state (bytes in use, a maximum), not a number of events: it may fall, and differences of it
    /// mean nothing.
    pub gauge: bool,
    /// One line: what it counts.
    pub meaning: &'static str,
}

/// A consumer of counters with their full dotted names.
pub trait CounterSink {
    /// Receives one counter: `prefix.def.name` has `value`.
    fn counter(&mut self, prefix: &str, def: &'static CounterDef, value: u64);
}

/// A group of counters, declared with [`counters!`](crate::counters).
pub trait Counters: Default {
    /// The counters, in the order of the fields.
    const DEFS: &'static [CounterDef];

    /// The values, in the order of [`Counters::DEFS`].
    fn values(&self) -> Vec<u64>;

    /// Reports every counter to `sink` under `prefix`.
    fn report(&self, prefix: &str, sink: &mut dyn CounterSink) {
        for (def, value) in Self::DEFS.iter().zip(self.values()) {
            sink.counter(prefix, def, value);
        }
    }

    /// Adds another group of the same kind, counter by counter (such as another core's).
    fn add(&mut self, other: &Self);

    /// Sets all counters to zero (at the end of warm-up).
    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Declares a struct of `u64` counters, each with a one-line meaning and a unit. A counter whose value
/// depends on when things happen is `timed`; a state instead of a number of events is a `gauge`:
///
/// ```
/// ambulator_base::counters! {
///     /// Counters of a TLB.
///     pub struct TlbCounters {
///         /// Lookups that hit.
///         hits: Events,
///         /// Lookups that missed.
///         misses: Events,
///         /// Of these, lookups for a page whose walk was under way.
///         joined: Events timed,
///         /// Entries in use.
///         entries: Events gauge,
///     }
/// }
/// use ambulator_base::Counters;
/// assert_eq!(TlbCounters::DEFS[1].name, "misses");
/// assert_eq!(TlbCounters::DEFS[1].meaning, "Lookups that missed.");
/// assert_eq!(TlbCounters::DEFS.iter().map(|def| def.timed).collect::<Vec<_>>(), [false, false, true, false]);
/// assert_eq!(TlbCounters::DEFS.iter().map(|def| def.gauge).collect::<Vec<_>>(), [false, false, false, true]);
/// ```
#[macro_export]
macro_rules! counters {
    (@is timed) => { false };
    (@is gauge) => { false };
    (@is timed timed) => { true };
    (@is gauge timed) => { false };
    (@is timed gauge) => { false };
    (@is gauge gauge) => { true };
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $( #[doc = $meaning:literal] $field:ident: $unit:ident $($kind:ident)? ),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $( #[doc = $meaning] pub $field: u64, )*
        }

        impl $crate::State for $name {
            fn state(&mut self, archive: &mut $crate::Archive<'_>) {
                $( $crate::State::state(&mut self.$field, archive); )*
            }
        }

        impl $crate::Counters for $name {
            const DEFS: &'static [$crate::CounterDef] = &[
                $( $crate::CounterDef {
                    name: stringify!($field),
                    unit: $crate::Unit::$unit,
                    timed: $crate::counters!(@is timed $($kind)?),
                    gauge: $crate::counters!(@is gauge $($kind)?),
                    meaning: $meaning.trim_ascii(),
                } ),*
            ];

            fn values(&self) -> Vec<u64> {
                vec![ $( self.$field ),* ]
            }

            fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )*
            }
        }
    };
}
