//! Finds the place of each counter by the order in which counters are reported, which hardly changes from
//! report to report.

use ambulator_base::CounterDef;
use std::collections::BTreeMap;

/// The places of counters, numbered in the order of their first reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterIndex {
    by_name: BTreeMap<String, usize>,
    /// For each counter of a report: prefix, counter, place.
    order: Vec<(String, &'static CounterDef, usize)>,
    next: usize,
}

impl CounterIndex {
    /// A report begins.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// The place of the counter that is reported now, and its full name if it is a new one.
    pub fn find(&mut self, prefix: &str, def: &'static CounterDef) -> (usize, Option<String>) {
        if let Some((known, of, place)) = self.order.get(self.next)
            && std::ptr::eq(*of, def)
            && known == prefix
        {
            self.next += 1;
            return (*place, None);
        }
        let name = if prefix.is_empty() { def.name.to_owned() } else { format!("{prefix}.{}", def.name) };
        let new = self.by_name.len();
        let place = *self.by_name.entry(name.clone()).or_insert(new);
        self.order.truncate(self.next);
        self.order.push((prefix.to_owned(), def, place));
        self.next += 1;
        (place, (place == new).then_some(name))
    }
}
