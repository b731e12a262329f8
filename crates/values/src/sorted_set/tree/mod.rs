//! A large sorted set: a B+ tree in the order of (score, member), and an index from members to
//! leaves.
//!
//! ```text
//! inner    | children | entries below each | where each begins |      rank <-> place
//!              |
//! leaf     marks, scores, members of up to 64 entries, linked to its neighbours
//!              ^
//! index    hash of a member -> its leaf
//! ```
//!
//! A member is stored once, in its leaf. A lookup gets the leaf from the hash, and the entry from
//! the mark. A rank is the sum of the counts to the left on the way up from a leaf. So a member
//! costs its bytes, a score, an end and a mark (11 bytes), some 10 bytes of index, and shares of
//! nodes: about 27 bytes beyond its own.
//!
//! | file | what |
//! |---|---|
//! | `leaf` | up to 64 entries in one buffer |
//! | `inner` | children, counts, fences |
//! | `arena` | nodes by number |
//! | `index` | members to leaves |
//! | `balance` | splitting, merging, removing nodes |
//! | `walk` | iterating over entries, bulk building |
//! | this | finding places; inserting and removing entries |
//!
//! Invariants
//! 1. The entries of all leaves, from `first` on, are in ascending order of (score, member); no
//!    member twice. No score is NaN.
//! 2. The index knows each member's leaf.
//! 3. A count in an inner node is the number of entries below that child.
//! 4. All leaves have the same depth, `height`; none is empty unless it is the only node.
//! 5. No change touches more than a few nodes of each floor, and moves at most one leaf's entries.
//!
//! Not here: the packed form, deadlines, what ranges mean. Tests: `tests/sorted_set.rs`, and the
//! foot of the files; [`Tree::check`] looks at all invariants.

mod arena;
mod balance;
mod check;
mod index;
mod inner;
mod leaf;
mod walk;

use pantala_table::Renewal;
use smallvec::SmallVec;

use arena::{Arena, NONE};
use index::{Hash, Index};
use inner::{Fence, Inner, prefix};
use leaf::{Entry, Leaf};

pub use walk::{Walk, WalkBack};

/// A B+ tree of entries with an index by member.
#[derive(Clone, Debug)]
pub struct Tree {
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
    inner_count: usize,
    root: u32,
    /// Levels of inner nodes above the leaves.
    height: u32,
    first: u32,
    last: u32,
    len: usize,
    /// Bytes of all leaves' buffers.
    leaf_bytes: usize,
    index: Index,
}

/// The location of an entry, or where it would be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePosition {
    leaf: u32,
    at: usize,
}

/// A point between entries in their order.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    /// Before all entries of this score.
    BeforeScore(f64),
    /// After all entries of this score.
    BehindScore(f64),
    /// Before this member; all scores are equal.
    BeforeMember(&'a [u8]),
    /// After this member; all scores are equal.
    BehindMember(&'a [u8]),
    /// Before this entry.
    BeforeEntry(f64, &'a [u8]),
}

impl Point<'_> {
    /// Whether the point is after an entry.
    #[inline]
    pub fn is_behind(&self, score: f64, member: &[u8]) -> bool {
        match *self {
            Point::BeforeScore(limit) => score < limit,
            Point::BehindScore(limit) => score <= limit,
            Point::BeforeMember(limit) => member < limit,
            Point::BehindMember(limit) => member <= limit,
            Point::BeforeEntry(limit, name) => score < limit || (score == limit && member < name),
        }
    }

    /// Whether the point is after the start of a node with this fence; `None` if the fence is too
    /// coarse to tell.
    #[inline]
    fn is_behind_fence(&self, fence: Fence) -> Option<bool> {
        let by_prefix = |name: &[u8]| {
            let wanted = prefix(name);
            (fence.prefix != wanted).then_some(fence.prefix < wanted)
        };
        match *self {
            Point::BeforeScore(limit) => Some(fence.score < limit),
            Point::BehindScore(limit) => Some(fence.score <= limit),
            Point::BeforeMember(name) | Point::BehindMember(name) => by_prefix(name),
            Point::BeforeEntry(limit, _) if fence.score != limit => Some(fence.score < limit),
            Point::BeforeEntry(_, name) => by_prefix(name),
        }
    }
}

/// What [`Tree::set`] did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SetOutcome {
    /// The member is new.
    Added,
    /// The member had another score.
    Moved,
    /// Nothing changed.
    Not,
}

impl Default for Tree {
    fn default() -> Self {
        let mut leaves = Arena::default();
        let root = leaves.add(Leaf::default());
        Tree {
            leaves,
            inners: Arena::default(),
            inner_count: 0,
            root,
            height: 0,
            first: root,
            last: root,
            len: 0,
            leaf_bytes: 0,
            index: Index::default(),
        }
    }
}

impl Tree {
    /// How many members there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Allocated bytes.
    pub fn heap_bytes(&self) -> usize {
        let per_inner = inner::MOST * (4 + 8 + size_of::<Fence>());
        let nodes = self.leaves.heap_bytes() + self.inners.heap_bytes();
        nodes + self.leaf_bytes + self.inner_count * per_inner + self.index.heap_bytes()
    }

    /// Reallocates parts that lie in sparse pages, leaves and then segments of the index: see
    /// [`pantala_table::Object::renew`].
    pub fn renew(&mut self, from: usize, most: usize, renewal: &mut Renewal<'_>) -> Option<usize> {
        let (leaves, end) = (self.leaves.numbers(), from.saturating_add(most));
        for id in from..end.min(leaves) {
            self.leaves.at_mut(id as u32).renew(renewal);
        }
        if end < leaves {
            return Some(end);
        }
        let from = from.max(leaves);
        self.index.renew(from - leaves, end - from, renewal).map(|next| next + leaves)
    }

    /// The location of a member.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<TreePosition> {
        self.find_hashed(Hash::of(member), member)
    }

    #[inline]
    fn find_hashed(&self, hash: Hash, member: &[u8]) -> Option<TreePosition> {
        self.index.find(hash, |leaf| {
            let at = self.leaves.at(leaf).find(hash.mark(), member)?;
            Some(TreePosition { leaf, at })
        })
    }

    /// The score of the entry at a spot.
    #[inline]
    pub fn score_at(&self, spot: TreePosition) -> f64 {
        self.leaves.at(spot.leaf).score(spot.at)
    }

    /// How many entries precede a spot.
    pub fn rank_of(&self, spot: TreePosition) -> usize {
        let mut rank = spot.at as u64;
        let (mut child, mut parent) = (spot.leaf, self.leaves.at(spot.leaf).parent);
        while parent != NONE {
            let node = self.inners.at(parent);
            rank += node.counts[..node.position(child)].iter().sum::<u64>();
            (child, parent) = (parent, node.parent);
        }
        rank as usize
    }

    /// The spot of the entry with this rank, which must be below [`Tree::len`].
    pub fn at_rank(&self, rank: usize) -> TreePosition {
        let (mut node, mut left) = (self.root, rank as u64);
        for _ in 0..self.height {
            let inner = self.inners.at(node);
            let mut child = 0;
            while child + 1 < inner.len() && left >= inner.counts[child] {
                left -= inner.counts[child];
                child += 1;
            }
            node = inner.children[child];
        }
        TreePosition { leaf: node, at: left as usize }
    }

    /// The spot of the first entry that is not before a point, and its rank. It may be the spot
    /// after a leaf's last entry.
    pub fn seek(&self, point: &Point<'_>) -> (TreePosition, usize) {
        let (mut node, mut rank) = (self.root, 0);
        for floor in (0..self.height).rev() {
            let inner = self.inners.at(node);
            let child = self.child_for(inner, floor, point);
            rank += inner.counts[..child].iter().sum::<u64>();
            node = inner.children[child];
        }
        let is_before = |leaf: &Leaf, at: usize| point.is_behind(leaf.score(at), leaf.member(at));
        let at = match *point {
            Point::BeforeScore(limit) => {
                self.leaves.at(node).partition_point(|leaf, at| leaf.score(at) < limit)
            }
            Point::BehindScore(limit) => {
                self.leaves.at(node).partition_point(|leaf, at| leaf.score(at) <= limit)
            }
            _ => self.leaves.at(node).partition_point(is_before),
        };
        (TreePosition { leaf: node, at }, rank as usize + at)
    }

    /// The last child that begins before the point, or else the first, of a node whose children are
    /// on `floor`.
    fn child_for(&self, inner: &Inner, floor: u32, point: &Point<'_>) -> usize {
        let (mut low, mut high) = (1, inner.len());
        while low < high {
            let middle = (low + high) / 2;
            let is_before = point.is_behind_fence(inner.fences[middle]).unwrap_or_else(|| {
                let first = self.first_below(inner.children[middle], floor);
                point.is_behind(first.score, first.member)
            });
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    /// The first entry below a node on a floor (0: a leaf).
    fn first_below(&self, node: u32, floor: u32) -> Entry<'_> {
        let leaf = (0..floor).fold(node, |node, _| self.inners.at(node).children[0]);
        self.leaves.at(leaf).entry(0)
    }

    /// Sets a member's score to the result of `decide` for its present score; `None` leaves it
    /// unchanged. Returns the old score and what was done.
    pub fn update(
        &mut self,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> (Option<f64>, SetOutcome) {
        let hash = Hash::of(member);
        let Some(spot) = self.find_hashed(hash, member) else {
            let Some(score) = decide(None) else { return (None, SetOutcome::Not) };
            self.add(hash, score, member);
            return (None, SetOutcome::Added);
        };
        let old = self.score_at(spot);
        match decide(Some(old)) {
            Some(new) if new != old => {
                self.shift(hash, spot, new, member);
                (Some(old), SetOutcome::Moved)
            }
            _ => (Some(old), SetOutcome::Not),
        }
    }

    /// Adds a new member.
    fn add(&mut self, hash: Hash, score: f64, member: &[u8]) {
        let TreePosition { leaf, at } = self.make_way(score, member);
        let entry = Entry { mark: hash.mark(), score, member };
        self.len += 1;
        let node = self.leaves.at(leaf);
        let bytes = node.member_bytes() + member.len();
        let is_end = at == node.len() && at > 0;
        let is_full = node.len() >= leaf::MOST && leaf == self.last;
        if is_end && (is_full || bytes > leaf::MOST_MEMBER_BYTES) {
            // A tree that grows at its end fills its leaves.
            let right = self.add_leaf_behind(leaf, Leaf::of(std::iter::once(entry)));
            return self.index.insert(hash, right);
        }
        if bytes > leaf::HUGE_BYTES && !node.is_empty() {
            return self.add_beside_huge(hash, TreePosition { leaf, at }, entry);
        }
        self.with_leaf(leaf, |node| node.insert(at, entry));
        self.index.insert(hash, leaf);
        if self.leaves.at(leaf).is_too_large() {
            self.split_leaf(leaf);
        }
    }

    /// The spot for a new entry, which is counted in the nodes on the way down.
    fn make_way(&mut self, score: f64, member: &[u8]) -> TreePosition {
        let point = Point::BeforeEntry(score, member);
        let mut node = self.root;
        for floor in (0..self.height).rev() {
            let child = self.child_for(self.inners.at(node), floor, &point);
            let inner = self.inners.at_mut(node);
            inner.counts[child] += 1;
            node = inner.children[child];
        }
        let is_before = |leaf: &Leaf, at: usize| leaf.compare(at, score, member).is_lt();
        TreePosition { leaf: node, at: self.leaves.at(node).partition_point(is_before) }
    }

    /// Adds an entry in a leaf of its own: it or its neighbour is huge, and huge members should not
    /// be moved for each neighbour.
    #[cold]
    fn add_beside_huge(
        &mut self,
        hash: Hash,
        TreePosition { leaf, at }: TreePosition,
        entry: Entry<'_>,
    ) {
        self.cut_leaf(leaf, at);
        if at == 0 {
            self.with_leaf(leaf, |node| node.insert(0, entry));
            return self.index.insert(hash, leaf);
        }
        // It has been counted with the left half so far.
        let own = self.add_leaf_behind(leaf, Leaf::of(std::iter::once(entry)));
        self.index.insert(hash, own);
    }

    /// Sets another score for the entry at a spot.
    fn shift(&mut self, hash: Hash, spot: TreePosition, score: f64, member: &[u8]) {
        let TreePosition { leaf, at } = spot;
        let node = self.leaves.at(leaf);
        let last = node.len() - 1;
        // Between the first and the last entry of its leaf the nodes above need no change.
        let stays = at > 0
            && at < last
            && node.compare(0, score, member).is_lt()
            && node.compare(last, score, member).is_gt();
        if !stays {
            self.take_out(hash, spot);
            return self.add(hash, score, member);
        }
        let is_placed = node.compare(at - 1, score, member).is_lt()
            && node.compare(at + 1, score, member).is_gt();
        self.with_leaf(leaf, |node| {
            if is_placed {
                return node.set_score(at, score);
            }
            node.remove(at);
            let to = node.partition_point(|node, at| node.compare(at, score, member).is_lt());
            node.insert(to, Entry { mark: hash.mark(), score, member });
        });
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let hash = Hash::of(member);
        let spot = self.find_hashed(hash, member)?;
        let score = self.score_at(spot);
        self.take_out(hash, spot);
        Some(score)
    }

    fn take_out(&mut self, hash: Hash, spot: TreePosition) {
        self.index.remove(hash, spot.leaf);
        self.with_leaf(spot.leaf, |node| node.remove(spot.at));
        self.len -= 1;
        self.count_down(spot.leaf, 1);
        self.mend_leaf(spot.leaf);
    }

    /// Removes the entries with these ranks, showing each first.
    pub fn remove_ranks(&mut self, ranks: std::ops::Range<usize>, show: &mut dyn FnMut(&[u8])) {
        let mut left = ranks.end.min(self.len).saturating_sub(ranks.start);
        while left > 0 {
            let TreePosition { leaf, at } = self.at_rank(ranks.start);
            let node = self.leaves.at(leaf);
            let to = node.len().min(at + left);
            for entry in node.entries(at, to) {
                self.index.remove(Hash::of(entry.member), leaf);
                show(entry.member);
            }
            let count = to - at;
            if count == 1 {
                self.with_leaf(leaf, |node| node.remove(at));
            } else {
                self.with_leaf(leaf, |node| node.remove_span(at, to));
            }
            self.len -= count;
            left -= count;
            self.count_down(leaf, count);
            self.mend_leaf(leaf);
        }
    }

    /// Shows members in an order of their hashes. Returns where to continue.
    pub fn scan(&self, from: u32, count: usize, show: &mut dyn FnMut(&[u8], f64)) -> Option<u32> {
        // Members with one hash in one leaf are all shown for the first of their slots.
        let mut shown = None;
        let mut leaves: SmallVec<[u32; 4]> = SmallVec::new();
        self.index.scan(from, count, &mut |hash, leaf| {
            if shown != Some(hash) {
                leaves.clear();
            }
            shown = Some(hash);
            if leaves.contains(&leaf) {
                return;
            }
            leaves.push(leaf);
            let node = self.leaves.at(leaf);
            for at in 0..node.len() {
                let entry = node.entry(at);
                if entry.mark == hash.mark() && Hash::of(entry.member) == hash {
                    show(entry.member, entry.score);
                }
            }
        })
    }

    /// Lowers the counts in all nodes above a leaf.
    fn count_down(&mut self, leaf: u32, by: usize) {
        let (mut child, mut parent) = (leaf, self.leaves.at(leaf).parent);
        while parent != NONE {
            let node = self.inners.at_mut(parent);
            let at = node.position(child);
            node.counts[at] -= by as u64;
            (child, parent) = (parent, node.parent);
        }
    }

    /// Changes a leaf, and updates the count of its bytes.
    fn with_leaf<R>(&mut self, leaf: u32, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let node = self.leaves.at_mut(leaf);
        let before = node.heap_bytes();
        let result = change(node);
        self.leaf_bytes = self.leaf_bytes + node.heap_bytes() - before;
        result
    }
}
