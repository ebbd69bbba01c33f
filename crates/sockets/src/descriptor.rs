//! The descriptor of a design: the only item that a design's folder exports.

use crate::{Parts, Settings, Site, Socket};
use ambulator_base::{Invalid, PageSize, values_out_of_range};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::marker::PhantomData;
use std::sync::Arc;

/// A socket that a design fills.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The socket.
    pub socket: Socket,
    /// What the design does there, in one line.
    pub about: &'static str,
    /// The name in older specs, from before each design had a single name.
    pub formerly: Option<&'static str>,
}

/// Properties of a page table that the conformance suite checks, beyond those of every page table.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// Supported page sizes, smallest first; 4 KiB must be among them.
    pub sizes: Vec<PageSize>,
    /// The most loads that a walk takes.
    pub max_loads: u32,
    /// The footprints of all tables add up to the allocated memory. False for tables that share memory among
    /// processes.
    pub exact_footprint: bool,
    /// A large page may have several copies of its entry, each with its own dirty bit.
    pub copied_entries: bool,
    /// A map operation that fails for lack of memory may have completed a resize.
    pub resizes_on_failure: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Claims {
            sizes: vec![PageSize::SIZE_4K, PageSize::SIZE_2M, PageSize::SIZE_1G],
            max_loads: 64,
            exact_footprint: true,
            copied_entries: false,
            resizes_on_failure: false,
        }
    }
}

/// The settings of a design that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoSettings {}

impl Settings for NoSettings {}

type Check = Arc<dyn Fn(&Value, &str, Option<&Site>) -> Vec<Invalid> + Send + Sync>;
type Build = Arc<dyn Fn(&Value, Site) -> Parts + Send + Sync>;

/// A translation design: what it is, which sockets it fills, and how it is built. Everything that needs
/// designs (specs, `list`, `explain`, the reference, the build, the conformance suite) reads only the
/// descriptor.
///
/// `T` is the type of its settings, until [`Descriptor::build`] erases it.
#[derive(Clone)]
pub struct Descriptor<T = NoSettings> {
    /// Its name in specs: lower case, words joined with `-`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// The sockets that it fills.
    pub fills: Vec<Fill>,
    /// It must be in all sockets that it fills, or in none.
    pub together: bool,
    /// The reason why it cannot run in a virtual machine, if it cannot.
    pub native_only: Option<&'static str>,
    /// It cannot be built: a bound of designs, which counts as none itself.
    pub idealised: bool,
    /// As a page table: another design may place its nodes.
    pub takes_nodes: bool,
    /// As a page table: what the conformance suite checks.
    pub claims: Claims,
    /// Former and current keys of its settings; a key that ends in `.` is a group.
    pub formerly: Vec<(&'static str, &'static str)>,
    pub(crate) schema: Value,
    pub(crate) default: Value,
    pub(crate) check: Check,
    pub(crate) build: Build,
    settings: PhantomData<fn() -> T>,
}

impl Descriptor {
    /// A design that fills no socket yet and has no settings.
    pub fn new(name: &'static str, about: &'static str, paper: &'static str) -> Descriptor {
        Descriptor {
            name,
            about,
            paper,
            fills: Vec::new(),
            together: false,
            native_only: None,
            idealised: false,
            takes_nodes: false,
            claims: Claims::default(),
            formerly: Vec::new(),
            schema: Value::Null,
            default: Value::Object(serde_json::Map::new()),
            check: Arc::new(|_, _, _| Vec::new()),
            build: Arc::new(|_, _| Parts::default()),
            settings: PhantomData,
        }
    }

    /// Whether it has settings.
    pub fn has_settings(&self) -> bool {
        self.default.as_object().is_some_and(|settings| !settings.is_empty())
    }

    /// The JSON schema of its settings, and their default values.
    pub fn settings_schema(&self) -> (&Value, &Value) {
        (&self.schema, &self.default)
    }
}

impl<T> Descriptor<T> {
    /// The key of its settings: the name with `_` instead of `-`.
    pub fn group(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Declares that it fills a socket; `about` says in one line what it does there.
    #[must_use]
    pub fn fills(mut self, socket: Socket, about: &'static str) -> Self {
        self.fills.push(Fill { socket, about, formerly: None });
        self
    }

    /// Sets its name in older specs, for the socket declared last.
    #[must_use]
    pub fn formerly_called(mut self, formerly: &'static str) -> Self {
        if let Some(fill) = self.fills.last_mut() {
            fill.formerly = Some(formerly);
        }
        self
    }

    /// It must be in all sockets that it fills, or in none.
    #[must_use]
    pub fn together(self) -> Self {
        Descriptor { together: true, ..self }
    }

    /// Declares that it cannot run in a virtual machine, and why.
    #[must_use]
    pub fn native_only(self, why: &'static str) -> Self {
        Descriptor { native_only: Some(why), ..self }
    }

    /// Declares that it cannot be built: it is a bound.
    #[must_use]
    pub fn idealised(self) -> Self {
        Descriptor { idealised: true, ..self }
    }

    /// Declares that, as a page table, it lets another design place its nodes ([`Site::nodes`]).
    #[must_use]
    pub fn takes_nodes(self) -> Self {
        Descriptor { takes_nodes: true, ..self }
    }

    /// Sets what the conformance suite checks of its page table.
    #[must_use]
    pub fn claims(self, claims: Claims) -> Self {
        Descriptor { claims, ..self }
    }

    /// Declares the former key of a setting, or of a group if it ends in `.`.
    #[must_use]
    pub fn formerly(mut self, old: &'static str, new: &'static str) -> Self {
        self.formerly.push((old, new));
        self
    }

    /// Sets the type of its settings.
    pub fn settings<S: Settings>(self) -> Descriptor<S> {
        let schema = serde_json::to_value(schemars::schema_for!(S)).unwrap_or_default();
        let ranges = schema.clone();
        let check: Check = Arc::new(move |value, at, site| {
            if site.is_none() {
                let wrong = values_out_of_range(&ranges, value, at);
                if !wrong.is_empty() {
                    return wrong;
                }
            }
            match serde_json::from_value::<S>(value.clone()) {
                Ok(settings) => site.map_or_else(|| settings.validate(at), |site| settings.validate_on(at, site)),
                Err(error) => vec![Invalid::new(at, format!("does not hold this design's settings: {error}"))],
            }
        });
        let default = serde_json::to_value(S::default()).unwrap_or_default();
        Descriptor { schema, default, check, ..self.of::<S>() }
    }

    /// The same with settings of another type.
    fn of<S>(self) -> Descriptor<S> {
        Descriptor {
            name: self.name,
            about: self.about,
            paper: self.paper,
            fills: self.fills,
            together: self.together,
            native_only: self.native_only,
            idealised: self.idealised,
            takes_nodes: self.takes_nodes,
            claims: self.claims,
            formerly: self.formerly,
            schema: self.schema,
            default: self.default,
            check: self.check,
            build: self.build,
            settings: PhantomData,
        }
    }
}

impl<T: Settings> Descriptor<T> {
    /// How its parts are built, for the sockets that hold it ([`Site::design`]); others are not asked for.
    /// The settings have been validated.
    pub fn build(self, build: impl Fn(&T, Site) -> Parts + Send + Sync + 'static) -> Descriptor {
        let build: Build =
            Arc::new(move |value, site| build(&serde_json::from_value::<T>(value.clone()).unwrap_or_default(), site));
        Descriptor { build, ..self.of() }
    }
}

impl<T> std::fmt::Debug for Descriptor<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Descriptor").field("name", &self.name).field("fills", &self.fills).finish_non_exhaustive()
    }
}
