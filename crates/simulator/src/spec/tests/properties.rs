//! Properties of any setting and any text.

use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// A value that the setting takes, selected by a number.
fn some_value(setting: &Setting, seed: u64) -> Option<Value> {
    Some(match &setting.kind {
        Kind::Integer { least, greatest } => {
            let span = (greatest - least) as u128 + 1;
            serde_json::from_str(&(least + (u128::from(seed) % span) as i128).to_string()).unwrap()
        }
        Kind::Float { least, greatest } => {
            let share = seed as f64 / u64::MAX as f64;
            Value::from(least + share * (greatest - least))
        }
        Kind::Flag => Value::Bool(seed % 2 == 1),
        Kind::Choice(choices) => Value::String(choices[seed as usize % choices.len()].name.clone()),
        Kind::Text => Value::String(format!("a \"text\" with \\ and\nlines {seed}")),
        Kind::Group(_) | Kind::List(_) => return None,
    })
}

proptest! {
    /// Any settings, valid or not, read back as they were shown.
    #[test]
    fn a_shown_spec_reads_back(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0u32..64), 0..20)) {
        let leaves = tree().leaves();
        let mut json = tree().default.clone();
        for (which, seed, shift) in changes {
            let setting = leaves[which.index(leaves.len())];
            if let (Some(value), Some(slot)) =
                (some_value(setting, seed >> shift << (shift / 2)), json.pointer_mut(&format!("/{}", setting.key.replace('.', "/"))))
            {
                *slot = value;
            }
        }
        let spec: Spec = serde_json::from_value(json).unwrap();
        let shown = show_spec(&spec);
        let mut layers = Layers::new(tree());
        layers.add_toml(&Arc::new(Source { name: "shown.toml".into(), text: shown.clone() }));
        let (back, _) = layers.finish(|_: &Spec| Vec::new()).map_err(|error| TestCaseError::fail(format!("{error}\n{shown}")))?;
        prop_assert_eq!(back, spec);
    }

    /// The reader survives any text.
    #[test]
    fn the_reader_survives_any_text(text in any::<String>()) {
        fuzz_spec(&text);
    }

    /// The reader survives text that resembles TOML.
    #[test]
    fn the_reader_survives_text_like_toml(parts in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "[[", "]]", "{", "}", "=", ".", ",", "\n", " ", "\"", "'", "\"\"\"", "#", "mmu", "l2_tlb", "entries", "core", "rob",
        "base", "about", "radix", "lvm-table1", "1", "-1", "1e400", "nan", "0x", "0xff", "1_0", "8GiB", "\"8GiB\"", "true", "é", "\u{200b}",
        "\t", "\r\n", "memory.bytes", "2024-01-01", "mmu.walk_entry", "\"l1\"", "1.5", "\\", "\\u", "\u{0}",
    ]), 0..40)) {
        fuzz_spec(&parts.concat());
    }
}
