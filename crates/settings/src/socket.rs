//! Where daemons listen by default.

use outboard_link::Address;

/// What the name of every such socket begins with. Users do not collide: root's are `outboard-…`, those of user
/// 1000 are `outboard-1000-…`.
pub(crate) fn socket_prefix() -> String {
    prefix_of(rustix::process::geteuid().as_raw())
}

fn prefix_of(user: u32) -> String {
    match user {
        0 => "outboard-".to_owned(),
        user => format!("outboard-{user}-"),
    }
}

/// The socket where this user's `daemon` (`agent`, `memory`) is found by default.
pub fn default_socket(daemon: &str) -> Address {
    Address::Abstract(socket_prefix() + daemon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_do_not_collide() {
        assert_eq!(prefix_of(0), "outboard-");
        assert_eq!(prefix_of(1000), "outboard-1000-");
        assert!(default_socket("agent").to_string().ends_with("-agent"));
    }
}
