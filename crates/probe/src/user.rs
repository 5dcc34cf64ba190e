//! Who is advised.

/// The user who runs this process.
pub(crate) enum User {
    /// The one whom the kernel refuses little.
    Root,
    /// Any other.
    Other {
        /// The group that this user is in, by its name, or by its number if it has none.
        group: String,
    },
}

impl User {
    pub(crate) fn of_this_process() -> Self {
        if rustix::process::geteuid().is_root() {
            return Self::Root;
        }
        let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
        Self::Other { group: group_name(rustix::process::getegid().as_raw(), &groups) }
    }
}

/// The name of a group in the lines of `/etc/group`; those that are elsewhere go by their numbers, as udev takes them too.
fn group_name(id: u32, groups: &str) -> String {
    let id = id.to_string();
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    named.unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_or_numbers() {
        let groups = "root:x:0:\nusers:x:100:\nada:x:1000:\n";
        assert_eq!(group_name(1000, groups), "ada");
        assert_eq!(group_name(1001, groups), "1001");
    }
}
