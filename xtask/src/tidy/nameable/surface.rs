//! The types that a signature mentions.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{GenericParam, Generics, Item, Path, Signature, TraitItem, UseTree};

use crate::tidy::Finding;

/// Crates whose types every user can name.
const STANDARD: &[&str] = &["std", "core", "alloc"];

/// What needs no import.
const PRELUDE: &[&str] = &[
    "Self",
    "String",
    "Vec",
    "Option",
    "Result",
    "Box",
    "bool",
    "char",
    "str",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "f32",
    "f64",
    "Fn",
    "FnMut",
    "FnOnce",
    "Send",
    "Sync",
    "Sized",
    "Copy",
    "Clone",
    "Default",
    "Drop",
    "From",
    "Into",
    "TryFrom",
    "TryInto",
    "AsRef",
    "AsMut",
    "PartialEq",
    "Eq",
    "PartialOrd",
    "Ord",
    "Iterator",
    "IntoIterator",
    "ExactSizeIterator",
    "DoubleEndedIterator",
    "FromIterator",
    "Extend",
    "ToString",
    "ToOwned",
];

/// Where the names of a file come from.
pub(super) struct Scope {
    /// The first part of the path by which each was imported.
    origins: BTreeMap<String, String>,
}

impl Scope {
    pub(super) fn of(items: &[Item]) -> Self {
        let mut origins = BTreeMap::new();
        for item in items {
            if let Item::Use(item) = item {
                imports(&item.tree, None, &mut origins);
            }
        }
        Self { origins }
    }
}

fn imports(tree: &UseTree, origin: Option<&str>, origins: &mut BTreeMap<String, String>) {
    let mut add = |name: &syn::Ident| {
        origins.insert(name.to_string(), origin.map_or_else(|| name.to_string(), str::to_owned));
    };
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            imports(&path.tree, Some(origin.unwrap_or(&first)), origins);
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, origin, origins)),
        UseTree::Name(name) => add(&name.ident),
        UseTree::Rename(rename) => add(&rename.rename),
        UseTree::Glob(_) => {}
    }
}

/// Looks through the public parts of one file.
pub(super) struct Surface<'a> {
    path: &'a str,
    exported: &'a BTreeSet<String>,
    scope: Scope,
    /// Parameters of what is being looked at.
    parameters: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Surface<'a> {
    pub(super) fn new(path: &'a str, exported: &'a BTreeSet<String>, scope: Scope) -> Self {
        Self { path, exported, scope, parameters: Vec::new(), findings: Vec::new() }
    }

    /// Looks at something that has these parameters, and at what they are bound by.
    pub(super) fn within(&mut self, generics: &Generics, look: impl FnOnce(&mut Self)) {
        let before = self.parameters.len();
        for parameter in &generics.params {
            match parameter {
                GenericParam::Type(parameter) => self.parameters.push(parameter.ident.to_string()),
                GenericParam::Const(parameter) => self.parameters.push(parameter.ident.to_string()),
                GenericParam::Lifetime(_) => {}
            }
        }
        self.visit_generics(generics);
        look(self);
        self.parameters.truncate(before);
    }

    /// Whether a user can name what this path means.
    fn can_name(&self, path: &Path) -> bool {
        let (Some(first), Some(last)) = (path.segments.first(), path.segments.last()) else { return true };
        let (first, last) = (first.ident.to_string(), last.ident.to_string());
        if self.parameters.contains(&first) || first == "Self" {
            return true;
        }
        let origin = self.scope.origins.get(&first).unwrap_or(&first);
        if STANDARD.contains(&origin.as_str())
            || self.exported.contains(origin)
            || self.exported.contains(&last)
        {
            return true;
        }
        path.segments.len() == 1 && *origin == first && PRELUDE.contains(&first.as_str())
    }
}

impl<'ast> Visit<'ast> for Surface<'_> {
    fn visit_path(&mut self, path: &'ast Path) {
        if !self.can_name(path) {
            let name = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            let message = format!(
                "users of the library cannot name `{name}`: export it from `outboard`, say this with a type that is exported, \
                 or mark it `#[doc(hidden)]` if it is for this workspace alone"
            );
            self.findings.push(Finding::error(self.path, path.span().start().line, message));
        }
        for segment in &path.segments {
            self.visit_path_arguments(&segment.arguments);
        }
    }

    /// Where a name stands that is no type, a path would be taken for one.
    fn visit_expr(&mut self, _: &'ast syn::Expr) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    /// Its parameters are known already.
    fn visit_signature(&mut self, signature: &'ast Signature) {
        signature.inputs.iter().for_each(|input| self.visit_fn_arg(input));
        self.visit_return_type(&signature.output);
    }

    fn visit_fn_arg(&mut self, input: &'ast syn::FnArg) {
        if let syn::FnArg::Typed(input) = input {
            self.visit_type(&input.ty);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        match item {
            TraitItem::Fn(item) => {
                self.within(&item.sig.generics, |surface| surface.visit_signature(&item.sig));
            }
            item => visit::visit_trait_item(self, item),
        }
    }
}
