//! A mesh of cubic cells, cut into a block for each rank.

/// A mesh, and into how many blocks it is cut in each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    cells: [u32; 3],
    blocks: [u32; 3],
}

impl Mesh {
    /// Cuts a mesh for so many ranks, so that blocks have little surface. `None` if there are not enough cells.
    pub(crate) fn new(cells: [u32; 3], ranks: u32) -> Option<Self> {
        let divisors = |of: u32| (1..=of).filter(move |divisor| of.is_multiple_of(*divisor));
        let cuts = divisors(ranks).flat_map(|x| {
            let rest = ranks / x;
            divisors(rest).map(move |y| [x, y, rest / y])
        });
        let fits = |blocks: &[u32; 3]| (0..3).all(|axis| blocks[axis] <= cells[axis]);
        let surface = |blocks: &[u32; 3]| {
            let side = |axis: usize| u64::from(cells[axis].div_ceil(blocks[axis]));
            side(0) * side(1) + side(1) * side(2) + side(2) * side(0)
        };
        cuts.filter(fits).min_by_key(surface).map(|blocks| Self { cells, blocks })
    }

    /// How many cells there are in each direction.
    pub(crate) fn cells(&self) -> [u32; 3] {
        self.cells
    }

    /// Whose cell this is.
    pub(crate) fn owner(&self, cell: [u32; 3]) -> u32 {
        let block = |axis: usize| {
            let (at, blocks) = (u64::from(cell[axis]), u64::from(self.blocks[axis]));
            (((at + 1) * blocks - 1) / u64::from(self.cells[axis])) as u32
        };
        (block(2) * self.blocks[1] + block(1)) * self.blocks[0] + block(0)
    }

    /// The cells of a rank.
    pub(crate) fn block(&self, rank: u32) -> Block {
        let at = [
            rank % self.blocks[0],
            rank / self.blocks[0] % self.blocks[1],
            rank / self.blocks[0] / self.blocks[1],
        ];
        let begin = |axis: usize, block: u32| {
            (u64::from(self.cells[axis]) * u64::from(block) / u64::from(self.blocks[axis])) as u32
        };
        Block {
            low: [0, 1, 2].map(|axis| begin(axis, at[axis])),
            high: [0, 1, 2].map(|axis| begin(axis, at[axis] + 1)),
        }
    }
}

/// Cells from the low corner to before the high one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    low: [u32; 3],
    high: [u32; 3],
}

impl Block {
    /// Whether a cell is in it.
    #[inline]
    pub(crate) fn contains(&self, cell: [u32; 3]) -> bool {
        (0..3).all(|axis| (self.low[axis]..self.high[axis]).contains(&cell[axis]))
    }

    /// The number of one of its cells.
    #[inline]
    pub(crate) fn index(&self, cell: [u32; 3]) -> usize {
        let at = |axis: usize| (cell[axis] - self.low[axis]) as usize;
        (at(2) * self.side(1) + at(1)) * self.side(0) + at(0)
    }

    /// How many cells it has.
    pub(crate) fn len(&self) -> usize {
        self.side(0) * self.side(1) * self.side(2)
    }

    fn side(&self, axis: usize) -> usize {
        (self.high[axis] - self.low[axis]) as usize
    }

    /// Its cells, in order of their numbers.
    pub(crate) fn cells(&self) -> impl Iterator<Item = [u32; 3]> + use<> {
        let Self { low, high } = self.clone();
        (low[2]..high[2])
            .flat_map(move |z| (low[1]..high[1]).flat_map(move |y| (low[0]..high[0]).map(move |x| [x, y, z])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_one_owner() {
        for (cells, ranks) in
            [([4, 4, 4], 8), ([5, 3, 7], 6), ([10, 1, 1], 7), ([3, 3, 3], 1), ([8, 2, 5], 16)]
        {
            let mesh = Mesh::new(cells, ranks).unwrap();
            let mut count = 0;
            for rank in 0..ranks {
                let block = mesh.block(rank);
                assert!(block.len() > 0);
                for (index, cell) in block.cells().enumerate() {
                    assert_eq!((mesh.owner(cell), block.index(cell)), (rank, index), "{mesh:?}");
                    assert!((0..ranks).filter(|rank| mesh.block(*rank).contains(cell)).eq([rank]));
                    count += 1;
                }
            }
            assert_eq!(count, cells.iter().product::<u32>());
        }
    }

    #[test]
    fn blocks_are_compact_and_there_are_enough_cells() {
        assert_eq!(Mesh::new([32, 16, 16], 4).unwrap().blocks.iter().max(), Some(&2));
        assert_eq!(Mesh::new([32, 16, 16], 2).unwrap().blocks, [2, 1, 1]);
        assert_eq!(Mesh::new([2, 2, 2], 3), None);
    }
}
