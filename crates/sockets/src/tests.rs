use super::*;
use ambulator_base::{Invalid, RegisterError, RegisterReason};
use ambulator_mmu::PwcSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn design(name: &'static str) -> Descriptor {
    Descriptor::new(name, "a design", "nobody, nowhere")
}

fn in_socket(name: &'static str, socket: Socket) -> Descriptor {
    design(name).fills(socket, "something")
}

/// A table and a lookaside.
fn two() -> Catalogue {
    let mut catalogue = Catalogue::default();
    catalogue.register(in_socket("my-table", Socket::PageTable)).unwrap();
    catalogue.register(in_socket("my-lookaside", Socket::Lookaside)).unwrap();
    catalogue
}

#[test]
fn a_name_is_valid_and_belongs_to_one_design_and_to_no_empty_socket() {
    let refused = |design| two().register(design).unwrap_err();
    let of = |name: &str, reason| RegisterError::new("design", name, reason);
    assert_eq!(refused(in_socket("my_table", Socket::PageTable)), of("my_table", RegisterReason::Malformed));
    for name in ["my-table", "my-lookaside"] {
        let error = refused(in_socket(name, Socket::Lookaside));
        assert_eq!(error, of(name, RegisterReason::Taken));
        assert_eq!(error.to_string(), format!("a design named `{name}` exists already: choose another name"));
    }
    for name in ["none", "buddy"] {
        let error = refused(in_socket(name, Socket::Lookaside)).to_string();
        assert!(
            error.contains(&format!("`{name}` is not a valid name of a design: it is the name of an empty")),
            "{error}"
        );
    }
    assert_eq!(two().designs().len(), 2);
}

#[test]
fn a_design_fills_a_socket() {
    let error = two().register(design("idle")).unwrap_err();
    assert_eq!(error.to_string(), "the design `idle` fills no socket: declare one with `Descriptor::fills`");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Own {
    entries: u64,
}

impl Default for Own {
    fn default() -> Self {
        Own { entries: 32 }
    }
}

impl Settings for Own {
    fn validate(&self, at: &str) -> Vec<Invalid> {
        let wrong = Invalid::new(format!("{at}.entries"), "is 0; a table has entries");
        if self.entries == 0 { vec![wrong] } else { Vec::new() }
    }

    fn validate_on(&self, at: &str, site: &Site) -> Vec<Invalid> {
        let wrong = Invalid::new(format!("{at}.entries"), "is odd on a machine of 57 bits");
        if self.entries % 2 == 1 && site.va_bits == 57 { vec![wrong] } else { Vec::new() }
    }
}

/// The same two, and designs with requirements.
fn many() -> Catalogue {
    let mut catalogue = two();
    let with_settings = in_socket("my-other", Socket::PageTable).settings::<Own>().build(|_, _| Parts::default());
    for design in [
        with_settings,
        in_socket("ahead", Socket::FrontSide),
        in_socket("guess", Socket::Speculation),
        in_socket("pair", Socket::Lookaside).fills(Socket::Placement, "places").together(),
        in_socket("alone", Socket::Lookaside).native_only("it would do harm"),
    ] {
        catalogue.register(design).unwrap();
    }
    catalogue
}

/// The errors, as sentences.
fn wrong(choice: &Choice) -> Vec<String> {
    many().validate("design", choice).iter().map(Invalid::to_string).collect()
}

fn choice() -> Choice {
    many().choice("my-table")
}

#[test]
fn the_first_page_table_is_the_default_and_settings_have_groups() {
    let many = many();
    assert_eq!(many.default_spec(), DesignSpec::with_table("my-table"));
    assert_eq!(many.default_settings().0.keys().collect::<Vec<_>>(), ["my_other"], "the others have no settings");
    assert_eq!(choice().pwc, PwcSpec::default());
    let names: Vec<&str> = many.filling(Socket::Lookaside).map(|design| design.name).collect();
    assert_eq!(names, ["my-lookaside", "pair", "alone"]);
    let pair = choice().with(Socket::Lookaside, "pair").with(Socket::Placement, "pair");
    let chosen: Vec<&str> = many.chosen(&pair.design).iter().map(|design| design.name).collect();
    assert_eq!(chosen, ["my-table", "pair"], "each once");
}

#[test]
fn an_unknown_name_is_reported_with_the_names_that_fit_the_socket() {
    assert_eq!(
        wrong(&choice().with(Socket::PageTable, "my-lookaside")),
        ["`design.page_table` is \"my-lookaside\", and there are: my-table, my-other"]
    );
    assert_eq!(
        wrong(&choice().with(Socket::Speculation, "gess")),
        ["`design.speculation` is \"gess\", and there are: none, guess"]
    );
    let mut nested = choice();
    nested.hypervisor_table = Some("my-lookaside".into());
    assert_eq!(wrong(&nested), ["`virtualization.hypervisor_table` is \"my-lookaside\", which is not a page table"]);
}

#[test]
fn settings_are_always_checked_and_on_the_machine_if_a_socket_holds_the_design() {
    let mut odd = choice();
    odd.va_bits = 57;
    odd.settings.set("my_other.entries", 33).unwrap();
    assert_eq!(wrong(&odd), Vec::<String>::new(), "no socket holds it");
    assert_eq!(
        wrong(&odd.clone().with(Socket::PageTable, "my-other")),
        ["`my_other.entries` is odd on a machine of 57 bits"]
    );
    odd.settings.set("my_other.entries", 0).unwrap();
    assert_eq!(wrong(&odd), ["`my_other.entries` is 0; a table has entries"]);
    odd.settings.set("my_other.entries", "many").unwrap();
    assert!(wrong(&odd)[0].starts_with("`my_other` does not hold this design's settings: "), "{:?}", wrong(&odd));
    odd.settings.0.clear();
    assert_eq!(wrong(&odd), ["`my_other`: the settings of `my-other` are missing"]);
    let unknown = odd.settings.set("my_other.entires", 1).unwrap_err();
    assert_eq!(unknown, "my_other.entires");
}

#[test]
fn incompatible_designs_are_reported_with_their_keys() {
    let ahead = choice().with(Socket::FrontSide, "ahead");
    assert_eq!(wrong(&ahead), Vec::<String>::new());
    for (socket, name) in [(Socket::Lookaside, "my-lookaside"), (Socket::Speculation, "guess")] {
        let reported = wrong(&ahead.clone().with(socket, name));
        let key =
            format!("`design.front_side` is \"ahead\": there is no L2 TLB before the caches for `design.{socket}`, ");
        assert!(reported.len() == 1 && reported[0].starts_with(&key), "{reported:?}");
    }
    for (full, empty, was) in [(Socket::Lookaside, "placement", "buddy"), (Socket::Placement, "lookaside", "none")] {
        let sentence = format!("`design.{empty}` is \"{was}\", and \"pair\" needs it too: it is in `design.{full}`");
        assert_eq!(wrong(&choice().with(full, "pair")), [sentence]);
    }
    assert_eq!(wrong(&choice().with(Socket::Lookaside, "pair").with(Socket::Placement, "pair")), Vec::<String>::new());
    for (first, second, is_wrong) in [
        ("none", "my-lookaside", true),
        ("my-lookaside", "my-lookaside", true),
        ("alone", "my-lookaside", false),
        ("my-lookaside", "none", false),
    ] {
        let mut both = choice().with(Socket::Lookaside, first);
        both.design.second_lookaside = second.into();
        let reported = wrong(&both);
        assert_eq!(!reported.is_empty(), is_wrong, "{first} and {second}: {reported:?}");
        let key = format!("`design.second_lookaside` is \"{second}\", and `design.lookaside` is \"{first}\": ");
        assert!(reported.iter().all(|reported| reported.starts_with(&key)), "{reported:?}");
    }
    let mut nested = choice().with(Socket::Lookaside, "alone");
    assert_eq!(wrong(&nested), Vec::<String>::new());
    nested.hypervisor_table = Some("my-table".into());
    assert_eq!(
        wrong(&nested),
        ["`design.lookaside` is \"alone\", which cannot run in a virtual machine: it would do harm"]
    );
}
