//! Who is let in on an encrypted port, and what becomes of the others.

#[cfg(test)]
mod authority;
#[cfg(test)]
mod port;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod traffic;
