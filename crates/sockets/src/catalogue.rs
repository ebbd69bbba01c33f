//! All designs: which can be chosen, the errors in a choice, and how it is built.

use crate::socket::TRACE_PLACEMENT;
use crate::spec::SECOND_LOOKASIDE;
use crate::{
    Choice, Descriptor, DesignParts, DesignSettings, DesignSpec, HypervisorParts, NewLookaside, NewNodes, Parts, Site,
    Socket, Stage,
};
use ambulator_base::{Invalid, RegisterError, RegisterReason};
use ambulator_mmu::{Lookaside, LookasidePair, PwcSpec};
use ambulator_os::{BuddyPlacement, CompanionFactory, RecordedPlacement, TranslationsFactory};
use serde_json::Map;

/// What is registered, as errors call it.
const DESIGN: &str = "design";

/// Designs by name, in the order of registration.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    designs: Vec<Descriptor>,
}

impl Catalogue {
    /// Registers a design.
    ///
    /// # Errors
    /// A name that is not valid in specs, a name that is taken, or a design that fills no socket.
    pub fn register(&mut self, design: Descriptor) -> Result<(), RegisterError> {
        let name = design.name;
        RegisterError::check(DESIGN, name)?;
        let error = |reason| Err(RegisterError::new(DESIGN, name, reason));
        if Socket::ALL.into_iter().any(|socket| socket.own_names().any(|own| own == name)) {
            return error(RegisterReason::Reserved("the name of an empty socket"));
        }
        if self.designs.iter().any(|other| other.group() == design.group()) {
            return error(RegisterReason::Taken);
        }
        if design.fills.is_empty() {
            return error(RegisterReason::Incomplete("fills no socket: declare one with `Descriptor::fills`"));
        }
        self.designs.push(design);
        Ok(())
    }

    /// Every design.
    pub fn designs(&self) -> &[Descriptor] {
        &self.designs
    }

    /// The design of that name.
    pub fn find(&self, name: &str) -> Option<&Descriptor> {
        self.designs.iter().find(|design| design.name == name)
    }

    /// The designs that fill a socket.
    pub fn filling(&self, socket: Socket) -> impl Iterator<Item = &Descriptor> {
        self.designs.iter().filter(move |design| design.fills.iter().any(|fill| fill.socket == socket))
    }

    /// The page table that was registered first, and nothing else.
    pub fn default_spec(&self) -> DesignSpec {
        DesignSpec::with_table(self.filling(Socket::PageTable).next().map_or("", |design| design.name))
    }

    /// The settings of all designs with their defaults; designs without settings have no group.
    pub fn default_settings(&self) -> DesignSettings {
        let with = self.designs.iter().filter(|design| design.has_settings());
        DesignSettings(with.map(|design| (design.group(), design.default.clone())).collect::<Map<_, _>>())
    }

    /// The designs that a spec puts into sockets, each once, in socket order.
    pub fn chosen<'a>(&'a self, spec: &DesignSpec) -> Vec<&'a Descriptor> {
        let mut chosen: Vec<&Descriptor> = Vec::new();
        for (_, _, name) in spec.entries() {
            if let Some(design) = self.find(name)
                && !chosen.iter().any(|other| other.name == design.name)
            {
                chosen.push(design);
            }
        }
        chosen
    }

    /// That page table and nothing else, with default settings, on a machine with 48-bit virtual addresses.
    pub fn choice(&self, page_table: &str) -> Choice {
        Choice {
            design: DesignSpec::with_table(page_table),
            settings: self.default_settings(),
            va_bits: 48,
            pwc: PwcSpec::default(),
            hypervisor_table: None,
        }
    }

    /// The errors in a choice of designs and their settings; empty if it can be built. `at` is the key of the
    /// sockets; each group of settings has its own key.
    pub fn validate(&self, at: &str, choice: &Choice) -> Vec<Invalid> {
        let Choice { design: spec, settings, .. } = choice;
        let mut wrong = Vec::new();
        // Unused designs are checked too: the user may switch to one of them next.
        for design in self.designs.iter().filter(|design| design.has_settings()) {
            let group = design.group();
            match settings.0.get(&group) {
                Some(value) => wrong.extend((design.check)(value, &group, None)),
                None => wrong.push(Invalid::new(&group, format!(": the settings of `{}` are missing", design.name))),
            }
        }
        for (key, socket, name) in spec.entries() {
            let fills = self.filling(socket).any(|design| design.name == name);
            if !fills && !socket.own_names().any(|own| own == name) {
                let known: Vec<&str> =
                    socket.own_names().chain(self.filling(socket).map(|design| design.name)).collect();
                wrong.push(Invalid::new(
                    format!("{at}.{key}"),
                    format!("is \"{name}\", and there are: {}", known.join(", ")),
                ));
            }
        }
        if !wrong.is_empty() {
            return wrong;
        }
        let nested = choice.hypervisor_table.as_deref();
        if let Some(table) = nested.filter(|table| !self.filling(Socket::PageTable).any(|design| design.name == *table))
        {
            wrong.push(Invalid::new(
                "virtualization.hypervisor_table",
                format!("is \"{table}\", which is not a page table"),
            ));
            return wrong;
        }
        wrong.extend(self.validate_sockets(at, spec, nested.is_some()));
        let stage = nested.map_or(Stage::Native, |table| self.guest_stage(table));
        for design in self.chosen(spec).into_iter().filter(|design| design.has_settings()) {
            let group = design.group();
            let site = self.site(choice, spec, stage);
            let value = settings.0.get(&group);
            wrong.extend(value.map(|value| (design.check)(value, &group, Some(&site))).into_iter().flatten());
        }
        wrong
    }

    /// Checks what the chosen designs require of one another.
    fn validate_sockets(&self, at: &str, spec: &DesignSpec, nested: bool) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        let none = Socket::Lookaside.empty().unwrap_or_default();
        if spec.second_lookaside != none && (spec.lookaside == none || spec.lookaside == spec.second_lookaside) {
            let key = format!("{at}.{SECOND_LOOKASIDE}");
            let message = format!(
                "is \"{}\", and `{at}.lookaside` is \"{}\": name two different ones",
                spec.second_lookaside, spec.lookaside
            );
            wrong.push(Invalid::new(key, message).and(format!("{at}.lookaside")));
        }
        if spec.front_side != none {
            for (key, socket, name) in spec.entries() {
                if matches!(socket, Socket::Lookaside | Socket::Speculation | Socket::TlbPrefetch) && name != none {
                    let message = format!(
                        "is \"{}\": there is no L2 TLB before the caches for `{at}.{key}`, \"{name}\"; leave one \
                         of them at \"{none}\"",
                        spec.front_side
                    );
                    wrong.push(Invalid::new(format!("{at}.front_side"), message).and(format!("{at}.{key}")));
                }
            }
        }
        for design in self.chosen(spec) {
            let group = design.name;
            if design.together {
                let holds = |socket| spec.holds(socket, group);
                let (full, empty): (Vec<Socket>, Vec<Socket>) =
                    design.fills.iter().map(|fill| fill.socket).partition(|socket| holds(*socket));
                if let (Some(full), Some(empty)) = (full.first(), empty.first()) {
                    let message =
                        format!("is \"{}\", and \"{group}\" needs it too: it is in `{at}.{full}`", spec.of(*empty));
                    wrong.push(Invalid::new(format!("{at}.{empty}"), message).and(format!("{at}.{full}")));
                }
            }
            if let Some(why) = design.native_only.filter(|_| nested) {
                let key = spec.entries().into_iter().find(|(_, _, name)| *name == group).map_or("", |(key, ..)| key);
                let message = format!("is \"{group}\", which cannot run in a virtual machine: {why}");
                wrong.push(Invalid::new(format!("{at}.{key}"), message).and("virtualization.mode"));
            }
        }
        wrong
    }

    fn guest_stage(&self, hypervisor_table: &str) -> Stage {
        let takes = self.find(hypervisor_table).is_some_and(|table| table.takes_nodes);
        Stage::Guest { hypervisor_takes_nodes: takes }
    }

    fn site(&self, choice: &Choice, spec: &DesignSpec, stage: Stage) -> Site {
        Site {
            va_bits: choice.va_bits,
            pwc: choice.pwc.clone(),
            stage,
            design: spec.clone(),
            takes_nodes: self.find(&spec.page_table).is_some_and(|table| table.takes_nodes),
            nodes: None,
        }
    }

    /// Builds the parts of a machine's designs, for a validated choice.
    pub fn build(&self, choice: &Choice) -> DesignParts {
        self.build_at(choice, &choice.design, Stage::Native, None).0
    }

    /// Builds the parts of a virtual machine's designs: first the guest's, second the hypervisor's. The
    /// choice is valid and names the hypervisor's page table.
    pub fn build_nested(&self, choice: &Choice) -> (DesignParts, DesignParts) {
        let table = choice.hypervisor_table.as_deref().unwrap_or(&choice.design.page_table);
        let (guest, for_hypervisor) = self.build_at(choice, &choice.design, self.guest_stage(table), None);
        let below = DesignSpec::with_table(table);
        let (mut hypervisor, _) = self.build_at(choice, &below, Stage::Hypervisor, for_hypervisor.nodes);
        // Parts that the guest's designs provide replace the hypervisor's own.
        if let Some(placement) = for_hypervisor.placement {
            hypervisor.placement = placement;
        }
        hypervisor.translations.companions.extend(for_hypervisor.companion);
        hypervisor.host_areas = for_hypervisor.host_areas;
        (guest, hypervisor)
    }

    /// Builds each design once. `nodes` come from the guest's designs, for a hypervisor. Returns the parts,
    /// and those for a hypervisor below.
    fn build_at(
        &self,
        choice: &Choice,
        spec: &DesignSpec,
        stage: Stage,
        mut nodes: Option<NewNodes>,
    ) -> (DesignParts, HypervisorParts) {
        let none = serde_json::Value::Object(Map::new());
        let build = |design: &Descriptor, nodes| {
            let site = Site { nodes, ..self.site(choice, spec, stage) };
            (design.build)(choice.settings.0.get(&design.group()).unwrap_or(&none), site)
        };
        let mut for_hypervisor = HypervisorParts::default();
        let mut built: Vec<(&str, Parts)> = Vec::new();
        for design in self.chosen(spec).into_iter().filter(|design| design.name != spec.page_table) {
            let mut parts = build(design, None);
            nodes = nodes.or(parts.nodes.take());
            let HypervisorParts { placement, nodes, companion, host_areas } = std::mem::take(&mut parts.hypervisor);
            for_hypervisor.placement = for_hypervisor.placement.take().or(placement);
            for_hypervisor.nodes = for_hypervisor.nodes.take().or(nodes);
            for_hypervisor.companion = for_hypervisor.companion.take().or(companion);
            for_hypervisor.host_areas = for_hypervisor.host_areas.max(host_areas);
            built.push((design.name, parts));
        }
        let table = self.find(&spec.page_table).expect("the spec was validated: its page table is in the catalogue");
        let mut table_parts = build(table, nodes);
        let page_table = table_parts.page_table.take().unwrap_or_else(|| broken(table.name, Socket::PageTable));
        for_hypervisor.host_areas = for_hypervisor.host_areas.max(table_parts.hypervisor.host_areas);
        built.push((table.name, table_parts));

        let has_registers = |name: &str| built.iter().any(|(own, parts)| *own == name && parts.companion.is_some());
        let with_registers = [has_registers(&spec.lookaside), has_registers(&spec.second_lookaside)];
        let first = take(&mut built, Socket::Lookaside, &spec.lookaside, |parts| &mut parts.lookaside);
        let second = take(&mut built, Socket::Lookaside, &spec.second_lookaside, |parts| &mut parts.lookaside);
        let new_lookaside = match (first, second) {
            (Some(mut first), Some(mut second)) => {
                let pair = move |core| {
                    Box::new(LookasidePair::new(first(core), second(core), with_registers)) as Box<dyn Lookaside>
                };
                Some(Box::new(pair) as NewLookaside)
            }
            (first, second) => first.or(second),
        };
        let new_speculator = take(&mut built, Socket::Speculation, &spec.speculation, |parts| &mut parts.speculator);
        let new_tlb_prefetcher =
            take(&mut built, Socket::TlbPrefetch, &spec.tlb_prefetch, |parts| &mut parts.tlb_prefetcher);
        let placement = take(&mut built, Socket::Placement, &spec.placement, |parts| &mut parts.placement);
        let new_front_side = take(&mut built, Socket::FrontSide, &spec.front_side, |parts| &mut parts.front_side);
        // The first lookaside's companion comes first: it may claim a page, and then the others are not
        // notified of it.
        let mut companions: Vec<Box<dyn CompanionFactory>> = Vec::new();
        for name in [&spec.lookaside, &spec.second_lookaside] {
            let parts = built.iter_mut().find(|(own, _)| own == name);
            companions.extend(parts.and_then(|(_, parts)| parts.companion.take()));
        }
        // Then those of designs in other sockets.
        companions.extend(built.iter_mut().filter_map(|(_, parts)| parts.companion.take()));
        let intermediate = built.iter_mut().find_map(|(_, parts)| parts.intermediate.take());
        let translations = TranslationsFactory { tables: page_table.factory, companions, intermediate };
        let parts = DesignParts {
            translations,
            placement: placement.unwrap_or_else(|| match spec.placement.as_str() {
                TRACE_PLACEMENT => Box::<RecordedPlacement>::default(),
                _ => Box::new(BuddyPlacement),
            }),
            new_walker: page_table.new_walker,
            new_lookaside,
            new_speculator,
            new_tlb_prefetcher,
            new_front_side,
            boot: built.into_iter().filter_map(|(_, parts)| parts.boot).collect(),
            host_areas: 0,
        };
        (parts, for_hypervisor)
    }
}

/// The part that a design has built for its socket; `None` if the socket is empty.
fn take<T>(
    built: &mut [(&str, Parts)],
    socket: Socket,
    name: &str,
    part: impl FnOnce(&mut Parts) -> &mut Option<T>,
) -> Option<T> {
    let (_, parts) = built.iter_mut().find(|(own, _)| *own == name)?;
    Some(part(parts).take().unwrap_or_else(|| broken(name, socket)))
}

fn broken(name: &str, socket: Socket) -> ! {
    panic!(
        "the design `{name}` declares that it fills {socket} but builds nothing for it: \
         its descriptor violates an invariant"
    )
}
