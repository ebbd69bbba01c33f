//! The tree of settings and the output made from it.

use super::*;

#[test]
fn every_setting_has_a_unit_and_a_meaning() {
    for setting in tree().leaves() {
        assert!(!setting.meaning.is_empty(), "`{}` has no meaning", setting.key);
        assert!(!setting.unit.is_empty(), "`{}` has no unit", setting.key);
        assert!(setting.optional || !setting.default.is_null(), "`{}` has no default", setting.key);
    }
    assert!(tree().leaves().len() > 100);
}

#[test]
fn explain_shows_everything_about_a_setting() {
    let text = explain("mmu.l2_tlb.entries", &[]).unwrap().to_string();
    for part in ["entries", "default  2048", "LVM Table 1", "machine me-hpt-table3: 1024", "design l2tlb-128k: 131072"]
    {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    let text = explain("llc.replacement", &[]).unwrap().to_string();
    assert!(text.contains("allowed  \"lru\""), "{text}");
    let text = explain("mmu.l2_tlb", &[]).unwrap().to_string();
    assert!(text.contains("mmu.l2_tlb.ways_2m"), "{text}");
    assert!(explain("", &[]).unwrap().to_string().contains("core.rob"));
    let counter =
        |name: &str| CounterInfo { name: name.into(), unit: "events".into(), meaning: "Walks.".into(), timed: false };
    let counters = [counter("mmu.walks.started"), counter("mmu.walks.merged")];
    assert_eq!(explain("mmu.walks.started", &counters), Ok(Explanation::Counter(counters[0].clone())));
    assert!(explain("mmu.walks", &counters).unwrap().to_string().contains("mmu.walks.merged   events: Walks."));
    assert!(explain("mmu.walks.starred", &counters).unwrap_err().to_string().contains("`mmu.walks.started`"));
    assert!(explain("mmu.l2_tlb.entires", &counters).unwrap_err().to_string().contains("`mmu.l2_tlb.entries`"));
}

#[test]
fn the_reference_has_every_setting() {
    let reference = reference_markdown();
    for setting in tree().leaves() {
        assert!(reference.contains(&format!("| `{}` |", setting.key)), "{}", setting.key);
    }
    let rows = reference.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 8, "{row}");
    }
}

#[test]
fn unusual_types_are_read_too() {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Plain {
        #[default]
        One,
        TwoThree,
    }
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Unusual {
        /// Perhaps.
        perhaps: Option<u64>,
        /// Perhaps a choice.
        choice: Option<Plain>,
        /// Some.
        list: Vec<u8>,
        /// Choices.
        choices: Vec<Plain>,
        /// Signed.
        signed: i32,
        /// Text.
        text: String,
        /// The lengths.
        #[schemars(range(min = 3, max = 5))]
        bounded: u32,
    }
    let tree = Setting::tree::<Unusual>();
    let read = |text: &str| {
        let mut layers = Layers::new(&tree);
        layers.add_toml(&Arc::new(Source { name: "unusual.toml".into(), text: text.into() }));
        layers.finish(|_: &Unusual| Vec::new()).map(|(spec, _)| spec).map_err(|error| error.to_string())
    };
    let text = "perhaps = 4\nchoice = \"two-three\"\nlist = [1, 2]\nchoices = [\"one\"]\nsigned = -5\ntext = \"x\"\nbounded = 4";
    let spec = read(text).unwrap();
    assert_eq!(
        spec,
        Unusual {
            perhaps: Some(4),
            choice: Some(Plain::TwoThree),
            list: vec![1, 2],
            choices: vec![Plain::One],
            signed: -5,
            text: "x".into(),
            bounded: 4
        }
    );
    assert_eq!(read(&show::show(&tree, &serde_json::to_value(&spec).unwrap())).unwrap(), spec);
    let unset = Unusual::default();
    assert_eq!(
        read(&show::show(&tree, &serde_json::to_value(&unset).unwrap()).replace("bounded = 0", "")).unwrap(),
        unset
    );
    assert!(read("list = [1, 256]").unwrap_err().contains("from 0 to 255"));
    assert!(read("choice = \"two\"").unwrap_err().contains("one of \"one\", \"two-three\""));
    assert!(read("bounded = 6").unwrap_err().contains("from 3 to 5"));
}
