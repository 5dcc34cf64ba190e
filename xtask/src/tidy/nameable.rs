//! What the library shows, its user can name.
//!
//! A signature, a public field or a variant of `crates/outboard` that mentions a type which the crate does not export leaves a
//! user with a value that no variable, field or function of theirs can be declared for. Types of other rooms that the crate
//! exports are looked at like its own. What is marked `#[doc(hidden)]` is for this workspace alone, and free. What a macro
//! writes is not seen.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

use super::Finding;
use super::tree::Tree;

mod surface;

use surface::{Scope, Surface};

/// The crate that users depend on.
const LIBRARY: &str = "crates/outboard";

/// Checks the public surface of the library.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = parse(tree);
    let lib = format!("{LIBRARY}/src/lib.rs");
    let Some(root) = sources.iter().find(|source| source.path == lib) else { return Vec::new() };
    let exported = exported(root, &sources);
    let mut findings = Vec::new();
    for source in &sources {
        // A type of one room has its methods there.
        let defined = |name: &str| exported.rooms.get(name).is_some_and(|rooms| rooms.contains(&source.room));
        let mut surface = Surface::new(&source.path, &exported.names, Scope::of(&source.file.items));
        source.items(&mut |item| look(item, &defined, &mut surface));
        findings.extend(surface.findings);
    }
    findings
}

/// A file that is built into a library.
struct ParsedFile {
    path: String,
    /// The crate, by its folder.
    room: String,
    file: syn::File,
}

/// All libraries of rooms; a file that the compiler refuses is its business.
fn parse(tree: &Tree) -> Vec<ParsedFile> {
    let library = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let files = tree.files.iter().filter(|file| library(&file.path) && file.is_rust() && !file.is_test());
    let parsed = files.filter_map(|file| {
        let (room, _) = file.path.split_once("/src/")?;
        let parsed = syn::parse_file(file.text.as_deref()?).ok()?;
        Some(ParsedFile { path: file.path.clone(), room: room.to_owned(), file: parsed })
    });
    parsed.collect()
}

impl ParsedFile {
    /// Calls `look` with every item, those in modules too, but for tests.
    fn items<'a>(&'a self, look: &mut impl FnMut(&'a Item)) {
        walk(&self.file.items, look);
    }
}

fn walk<'a>(items: &'a [Item], look: &mut impl FnMut(&'a Item)) {
    for item in items {
        match item {
            Item::Mod(module) if !is_for_tests(&module.attrs) => {
                if let Some((_, items)) = &module.content {
                    walk(items, look);
                }
            }
            item => look(item),
        }
    }
}

/// What the library exports.
struct Exported {
    /// By the names under which the types are defined, and under which users know them.
    names: BTreeSet<String>,
    /// Where a type of that name is defined.
    rooms: BTreeMap<String, BTreeSet<String>>,
}

fn exported(root: &ParsedFile, sources: &[ParsedFile]) -> Exported {
    let mut aliases = BTreeMap::new();
    for source in sources {
        source.items(&mut |item| {
            if let Item::Use(item) = item {
                leaves(&item.tree, &mut |name, alias| {
                    if name != alias && is_public(&item.vis) {
                        aliases.insert(alias.to_owned(), name.to_owned());
                    }
                });
            }
        });
    }
    let mut names = BTreeSet::new();
    root.items(&mut |item| {
        if let Item::Use(item) = item
            && is_public(&item.vis)
            && !is_hidden(&item.attrs)
        {
            leaves(&item.tree, &mut |name, alias| {
                let mut name = name;
                names.extend([name.to_owned(), alias.to_owned()]);
                while let Some(earlier) = aliases.get(name)
                    && names.insert(earlier.clone())
                {
                    name = earlier;
                }
            });
        }
    });
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        source.items(&mut |item| {
            if let Some(name) = type_name(item).filter(|name| names.contains(name)) {
                rooms.entry(name).or_default().insert(source.room.clone());
            }
        });
    }
    Exported { names, rooms }
}

/// The name of a type that other crates may see.
fn type_name(item: &Item) -> Option<String> {
    let (name, visibility) = match item {
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// The names that a `use` brings, each with what it is called here.
fn leaves(tree: &UseTree, tell: &mut impl FnMut(&str, &str)) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, tell),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, tell)),
        UseTree::Name(name) => tell(&name.ident.to_string(), &name.ident.to_string()),
        UseTree::Rename(rename) => tell(&rename.ident.to_string(), &rename.rename.to_string()),
        UseTree::Glob(_) => {}
    }
}

/// Looks at what an item shows of an exported type.
fn look(item: &Item, is_exported: &impl Fn(&str) -> bool, surface: &mut Surface<'_>) {
    if type_name(item).is_some_and(|name| is_exported(&name)) {
        match item {
            Item::Struct(item) => {
                surface.within(&item.generics, |surface| look_at_fields(&item.fields, false, surface));
            }
            Item::Enum(item) => surface.within(&item.generics, |surface| {
                for variant in item.variants.iter().filter(|variant| !is_hidden(&variant.attrs)) {
                    look_at_fields(&variant.fields, true, surface);
                }
            }),
            Item::Trait(item) => surface.within(&item.generics, |surface| {
                item.supertraits.iter().for_each(|bound| surface.visit_type_param_bound(bound));
                let is_shown = |item: &&TraitItem| match item {
                    TraitItem::Type(item) => !is_hidden(&item.attrs),
                    TraitItem::Fn(item) => !is_hidden(&item.attrs),
                    _ => true,
                };
                item.items.iter().filter(is_shown).for_each(|item| surface.visit_trait_item(item));
            }),
            Item::Type(item) => surface.within(&item.generics, |surface| surface.visit_type(&item.ty)),
            _ => {}
        }
    }
    let Item::Impl(block) = item else { return };
    let Type::Path(of) = &*block.self_ty else { return };
    let Some(last) = of.path.segments.last() else { return };
    if !is_exported(&last.ident.to_string()) || is_hidden(&block.attrs) || is_for_tests(&block.attrs) {
        return;
    }
    surface.within(&block.generics, |surface| {
        if let Some((_, of, _)) = &block.trait_ {
            of.segments.iter().for_each(|segment| surface.visit_path_arguments(&segment.arguments));
        }
        for item in &block.items {
            look_at_item(item, block.trait_.is_some(), surface);
        }
    });
}

fn look_at_item(item: &ImplItem, is_of_trait: bool, surface: &mut Surface<'_>) {
    match item {
        ImplItem::Type(item) if !is_hidden(&item.attrs) => surface.visit_type(&item.ty),
        ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
            surface.visit_type(&item.ty);
        }
        ImplItem::Fn(item) if !is_of_trait && is_public(&item.vis) && !is_hidden(&item.attrs) => {
            surface.within(&item.sig.generics, |surface| surface.visit_signature(&item.sig));
        }
        _ => {}
    }
}

/// The fields of a variant are as public as it is.
fn look_at_fields(fields: &Fields, all: bool, surface: &mut Surface<'_>) {
    for field in fields.iter().filter(|field| (all || is_public(&field.vis)) && !is_hidden(&field.attrs)) {
        surface.visit_type(&field.ty);
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "hidden")
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    has(attributes, "cfg", "test")
}

/// Whether there is an attribute `#[name(argument)]`.
fn has(attributes: &[Attribute], name: &str, argument: &str) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident(name) && list.is_ok_and(|list| list.tokens.to_string() == argument)
    })
}

#[cfg(test)]
mod tests;
