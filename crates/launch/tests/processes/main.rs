//! Real processes, mostly shell scripts: started, shown, ended.

#[cfg(test)]
mod daemon;
#[cfg(test)]
mod job;
#[cfg(test)]
mod launcher;
#[cfg(test)]
mod output;
#[cfg(test)]
mod support;
