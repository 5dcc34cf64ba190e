//! Numbers and texts out of the content of a record.

/// The rest of a record's content.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

/// The content ends too early, or says what cannot be.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl<'a> Cursor<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Unreadable> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Unreadable> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Unreadable> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Unreadable> {
        self.array().map(u64::from_le_bytes)
    }
}
