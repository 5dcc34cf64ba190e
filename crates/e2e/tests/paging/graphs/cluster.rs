//! A memory server and agents in threads of this process, reached by real links.

use std::sync::OnceLock;

use outboard_agent::Daemon;
use outboard_e2e::Folder;
use outboard_link::Address;
use outboard_settings::Settings;

use super::cases::By;
use super::samples::write_image;

pub(crate) fn socket() -> Address {
    outboard_e2e::socket().parse().unwrap()
}

fn everywhere() -> Vec<Address> {
    vec![socket(), "tcp:127.0.0.1:0".parse().unwrap()]
}

/// A memory server, and for each kind of link an agent that reaches it by that.
pub(crate) struct Cluster {
    memory: Daemon,
    agents: [Daemon; 2],
    /// The images, by whether they are symmetric; made when they are asked for.
    images: [OnceLock<String>; 2],
    folder: Folder,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = Folder::new();
        let mut settings = Settings::default();
        settings.memory.listen = everywhere();
        settings.memory.data_dir = Some(folder.path().to_owned());
        let memory = Daemon::memory(&settings).unwrap();
        let agents = [By::Shm, By::Tcp].map(|by| {
            settings.agent.listen = everywhere();
            settings.agent.memory_servers = vec![address(&memory, by)];
            Daemon::agent(&settings).unwrap()
        });
        Self { memory, agents, images: Default::default(), folder }
    }

    pub(crate) fn server(&self, by: By) -> Address {
        address(&self.memory, by)
    }

    pub(crate) fn agent(&self, by: By) -> Address {
        address(&self.agents[by as usize], by)
    }

    pub(crate) fn image(&self, is_symmetric: bool) -> &str {
        self.images[usize::from(is_symmetric)].get_or_init(|| write_image(self.folder.path(), is_symmetric))
    }

    pub(crate) fn stop(self) {
        for agent in self.agents {
            agent.stop("done").unwrap();
        }
        self.memory.stop("done").unwrap();
    }
}

/// Where a daemon is reached by a kind of link.
pub(crate) fn address(daemon: &Daemon, by: By) -> Address {
    daemon.listening()[by as usize].clone()
}
