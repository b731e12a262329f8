//! Users by name, in parts: after a change the new map shares all unchanged parts with the old one,
//! so the cost of a change hardly grows with the number of users.
//!
//! Tests: at the foot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::user::User;

/// The number of parts. With 100,000 users a part has about 400.
const PARTS: usize = 256;

type Part = BTreeMap<Box<[u8]>, Arc<User>>;

/// An immutable map from names to users, in parts that the next version can share.
#[derive(Clone, Debug)]
pub(crate) struct NameMap {
    parts: Box<[Arc<Part>]>,
    count: usize,
}

impl Default for NameMap {
    fn default() -> Self {
        let nobody = Arc::new(Part::new());
        NameMap { parts: vec![nobody; PARTS].into(), count: 0 }
    }
}

/// The part of a name. Operators choose names, so nobody chooses them to collide.
fn part_of(name: &[u8]) -> usize {
    name.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()))
        % PARTS
}

impl NameMap {
    /// How many users there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The user with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.parts[part_of(name)].get(name)
    }

    /// All users, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        let mut all: Vec<&Arc<User>> = self.parts.iter().flat_map(|part| part.values()).collect();
        all.sort_unstable_by_key(|user| user.name());
        all.into_iter()
    }

    /// Inserts a user, or replaces the one with the name.
    pub fn insert(&mut self, user: Arc<User>) {
        let part = Arc::make_mut(&mut self.parts[part_of(user.name())]);
        self.count += usize::from(part.insert(user.name().into(), user).is_none());
    }

    /// Removes a user, if there is one with this name.
    pub fn remove(&mut self, name: &[u8]) {
        let part = &mut self.parts[part_of(name)];
        if part.contains_key(name) {
            Arc::make_mut(part).remove(name);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::catalogue::Catalogue;
    use crate::rules::patterns::DefaultChannels;

    #[test]
    fn it_is_what_one_map_would_be() {
        let catalogue = Catalogue::new(Vec::new());
        let user =
            |name: &str| Arc::new(User::new(name.as_bytes(), &catalogue, DefaultChannels::None));
        let mut users = NameMap::default();
        for number in (0..1000).chain(500..1500) {
            users.insert(user(&format!("user:{number:04}")));
        }
        let before = users.clone();
        for number in (0..1500).step_by(2) {
            users.remove(format!("user:{number:04}").as_bytes());
            users.remove(b"nobody");
        }
        assert_eq!((before.len(), users.len()), (1500, 750));
        let names: Vec<String> =
            users.iter().map(|user| user.name().escape_ascii().to_string()).collect();
        let expected: Vec<String> =
            (1..1500).step_by(2).map(|number| format!("user:{number:04}")).collect();
        assert_eq!(names, expected);
        assert_eq!(before.iter().count(), 1500);
        assert!(users.get(b"user:0001").is_some() && users.get(b"user:0002").is_none());
    }
}
