//! How a section declares its keys: one definition makes the struct, its defaults, its documentation and the
//! list that files, variables and flags are read by.

use crate::error::SettingsError;
use crate::value::Value;

/// A field of a section, as it was declared.
pub(crate) struct Field {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
}

/// Says why a value that could be read will not do.
pub(crate) type Check<T> = fn(&T) -> Result<(), &'static str>;

/// Looks at the fields of sections, one after the other, and may change them.
pub(crate) trait Visitor {
    fn field<T: Value>(
        &mut self,
        field: Field,
        value: &mut T,
        checks: &[Check<T>],
    ) -> Result<(), SettingsError>;
}

/// Something whose fields can be visited.
pub(crate) trait Section {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), SettingsError>;
}

/// Gathers a section's variables, secrets included.
#[derive(Default)]
pub(crate) struct Revealer(pub(crate) Vec<(String, String)>);

impl Visitor for Revealer {
    fn field<T: Value>(&mut self, field: Field, value: &mut T, _: &[Check<T>]) -> Result<(), SettingsError> {
        let name = crate::Key::new(&field, value).variable();
        self.0.push((name, value.reveal().to_string()));
        Ok(())
    }
}

/// Declares a section: `"name" => pub struct Name { /// doc \n pub field: Type where check = default, … }`.
/// The check is optional.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $section:literal => pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                pub $field:ident: $type:ty $(where $check:path)? = $default:expr,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                pub $field: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::section::Section for $name {
            fn visit<V: $crate::section::Visitor>(
                &mut self,
                visitor: &mut V,
            ) -> Result<(), $crate::SettingsError> {
                $(
                    let field = $crate::section::Field {
                        section: $section,
                        name: stringify!($field),
                        doc: concat!($($doc),+),
                    };
                    visitor.field(field, &mut self.$field, &[$($check)?])?;
                )+
                Ok(())
            }
        }

        impl $name {
            /// The environment by which another process finds exactly these values, secrets included.
            pub fn variables(&self) -> Vec<(String, String)> {
                let mut revealer = $crate::section::Revealer::default();
                let visited = $crate::section::Section::visit(&mut self.clone(), &mut revealer);
                debug_assert!(visited.is_ok(), "a revealer refuses nothing");
                revealer.0
            }
        }
    };
}

pub(crate) use section;
