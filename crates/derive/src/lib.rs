//! `#[derive(State)]`: how a component of a machine is saved in a checkpoint and loaded from it.
//!
//! All fields are part of the state. Attributes say what is not:
//!
//! - `#[state(skip)]` on a field: a setting, or something that the machine's assembly or the run makes anew.
//! - `#[state(each)]` on a field: a list or an option of components, which the assembled machine has already:
//!   each loads its state in place, and their number must be the same.
//! - `#[state(sparse)]` on a field: a long `Vec` that is mostly as new. Its untouched pages take no memory.
//! - `#[state(same)]` on an enum: the assembled machine has the same variant already.
//! - `#[state(timed)]` on a field or on a struct: a part of the state only if time has been simulated; on a
//!   field of such a struct, `#[state(always)]` says that it is always.
//!
//! A crate that depends on `ambulator-base` has the trait from there; others have it from `ambulator`.

use proc_macro::TokenStream;
use proc_macro2::{Ident, TokenStream as Tokens, TokenTree};
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Field, Fields, Index, Type, parse_macro_input};

/// What an attribute says.
#[derive(Default)]
struct Says {
    skip: bool,
    each: bool,
    sparse: bool,
    same: bool,
    timed: bool,
    always: bool,
}

fn says(attributes: &[Attribute]) -> syn::Result<Says> {
    let mut found = Says::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("state")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                found.skip = true;
            } else if meta.path.is_ident("each") {
                found.each = true;
            } else if meta.path.is_ident("sparse") {
                found.sparse = true;
            } else if meta.path.is_ident("same") {
                found.same = true;
            } else if meta.path.is_ident("timed") {
                found.timed = true;
            } else if meta.path.is_ident("always") {
                found.always = true;
            } else {
                return Err(meta.error("`skip`, `each`, `sparse`, `same`, `timed` and `always` are known"));
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// Where the trait is, from the crate that is compiled.
fn home() -> Tokens {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(std::path::PathBuf::from).unwrap_or_default();
    match std::fs::read_to_string(folder.join("Cargo.toml")) {
        Ok(manifest) if !manifest.contains("ambulator-base") => quote!(::ambulator::base),
        _ => quote!(::ambulator_base),
    }
}

/// Derives `ambulator_base::State`.
#[proc_macro_derive(State, attributes(state))]
pub fn derive_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn derive(input: &DeriveInput) -> syn::Result<Tokens> {
    let own = says(&input.attrs)?;
    let home = home();
    let parameters: Vec<&Ident> = input.generics.type_params().map(|parameter| &parameter.ident).collect();
    let mut bounds = Vec::new();
    let body = match &input.data {
        Data::Struct(data) => {
            let places = data.fields.iter().enumerate().map(|(at, field)| {
                let place = match &field.ident {
                    Some(name) => quote!(self.#name),
                    None => {
                        let at = Index::from(at);
                        quote!(self.#at)
                    }
                };
                (field, quote!(&mut #place))
            });
            fields(places, own.timed, &home, &parameters, &mut bounds)?
        }
        Data::Enum(data) => {
            let name = &input.ident;
            let (mut tags, mut arms) = (Vec::new(), Vec::new());
            let mut blanks = Vec::new();
            for (tag, variant) in data.variants.iter().enumerate() {
                let (tag, ident) = (tag as u32, &variant.ident);
                tags.push(quote!(#name::#ident { .. } => #tag));
                let bound: Vec<Ident> = (0..variant.fields.len()).map(|at| format_ident!("field{at}")).collect();
                let members = members(&variant.fields);
                let places = variant.fields.iter().zip(bound.iter().map(|name| quote!(#name)));
                let body = fields(places, own.timed, &home, &parameters, &mut bounds)?;
                arms.push(quote!(#name::#ident { #(#members: #bound),* } => { #body }));
                blanks
                    .push(quote!(#tag => *self = #name::#ident { #(#members: ::core::default::Default::default()),* }));
            }
            let change = if own.same {
                quote!(archive.differs(::core::stringify!(#name)))
            } else {
                quote!(match tag { #(#blanks,)* _ => archive.differs(::core::stringify!(#name)) })
            };
            quote! {
                let own: u32 = match self { #(#tags),* };
                let mut tag = own;
                #home::State::state(&mut tag, archive);
                if tag != own { #change }
                match self { #(#arms)* }
            }
        }
        Data::Union(_) => return Err(syn::Error::new_spanned(&input.ident, "a union has no state")),
    };
    let (name, (implementing, of, existing)) = (&input.ident, input.generics.split_for_impl());
    let existing = existing.map(|clause| clause.predicates.iter().collect::<Vec<_>>()).unwrap_or_default();
    Ok(quote! {
        #[automatically_derived]
        impl #implementing #home::State for #name #of where #(#existing,)* #(#bounds,)* {
            fn state(&mut self, archive: &mut #home::Archive<'_>) {
                let _ = &archive;
                #body
            }
        }
    })
}

fn members(fields: &Fields) -> Vec<Tokens> {
    let of = fields.iter().enumerate().map(|(at, field)| match &field.ident {
        Some(name) => quote!(#name),
        None => {
            let at = Index::from(at);
            quote!(#at)
        }
    });
    of.collect()
}

/// The statements for fields, with an expression that borrows each.
fn fields<'a>(
    places: impl Iterator<Item = (&'a Field, Tokens)>,
    timed: bool,
    home: &Tokens,
    parameters: &[&Ident],
    bounds: &mut Vec<Tokens>,
) -> syn::Result<Tokens> {
    let mut all = Tokens::new();
    for (field, place) in places {
        let says = says(&field.attrs)?;
        if says.skip {
            all.extend(quote!(let _ = #place;));
            continue;
        }
        let method = if says.each {
            quote!(#home::Each::each)
        } else if says.sparse {
            quote!(#home::sparse)
        } else {
            quote!(#home::State::state)
        };
        let statement = quote!(#method(#place, archive););
        all.extend(match (timed || says.timed) && !says.always {
            true => quote!(if archive.timed() { #statement }),
            false => statement,
        });
        let of = &field.ty;
        if mentions(of, parameters) {
            let bound = if says.each { quote!(#home::Each) } else { quote!(#home::State) };
            bounds.push(quote!(#of: #bound));
        }
    }
    Ok(all)
}

/// Whether a type names one of the parameters.
fn mentions(of: &Type, parameters: &[&Ident]) -> bool {
    fn within(tokens: Tokens, parameters: &[&Ident]) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => parameters.iter().any(|own| **own == name),
            TokenTree::Group(group) => within(group.stream(), parameters),
            _ => false,
        })
    }
    within(quote!(#of), parameters)
}
