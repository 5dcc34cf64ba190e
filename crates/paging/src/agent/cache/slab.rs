//! Numbered places that are used again, so that requests allocate nothing once enough were under way before.

/// Numbered places for values.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free place and returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u32
        });
        self.places[number as usize] = Some(value);
        number
    }

    /// The number that the next value will have.
    pub fn next_number(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// The value at a place.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    /// The value at a place, to change it.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// Takes the value out of a place, which may be used again.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values with their numbers, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(number, value)| value.as_mut().map(|value| (number as u32, value)))
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(number, value)| value.as_ref().map(|value| (number as u32, value)))
    }
}
