//! Regions that are lent over libfabric are read and written without their owner's help, and nothing else is.

#[cfg(test)]
mod pair;
#[cfg(test)]
mod tests;
