//! How an error is told with what caused it.

use std::error::Error;

/// An error with its causes, in one line. A cause that the text has told already is not told again.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

/// Has `{:?}` of errors tell what [`with_causes`] does: it is what a program prints whose `main` returns the error, and
/// what `unwrap` shows. All public errors of the library have it, so the macro is in the room that every room may use.
#[macro_export]
macro_rules! debug_with_causes {
    ($($error:ty),+ $(,)?) => {
        $(
            impl ::std::fmt::Debug for $error {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.write_str(&$crate::with_causes(self))
                }
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    #[derive(Error)]
    #[error("the disk is full")]
    struct Disk;

    #[derive(Error)]
    #[error("cannot write: {0}")]
    struct Write(#[source] Disk);

    #[derive(Error)]
    #[error("not saved")]
    struct Save(#[from] Write);

    debug_with_causes!(Disk, Write, Save);

    #[test]
    fn every_cause_is_told_once() {
        assert_eq!(format!("{:?}", Save(Write(Disk))), "not saved: cannot write: the disk is full");
    }
}
