//! Categories of commands.

/// A category, `@name` in rules. The order is that of ACL CAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// `@keyspace`
    Keyspace,
    /// `@read`
    Read,
    /// `@write`
    Write,
    /// `@set`
    Set,
    /// `@sortedset`
    SortedSet,
    /// `@list`
    List,
    /// `@hash`
    Hash,
    /// `@string`
    String,
    /// `@bitmap`
    Bitmap,
    /// `@hyperloglog`
    HyperLogLog,
    /// `@geo`
    Geo,
    /// `@stream`
    Stream,
    /// `@pubsub`
    PubSub,
    /// `@admin`
    Admin,
    /// `@fast`
    Fast,
    /// `@slow`
    Slow,
    /// `@blocking`
    Blocking,
    /// `@dangerous`
    Dangerous,
    /// `@connection`
    Connection,
    /// `@transaction`
    Transaction,
    /// `@scripting`
    Scripting,
}

impl Category {
    /// Every category and its name.
    pub const ALL: [(Category, &'static str); 21] = [
        (Category::Keyspace, "keyspace"),
        (Category::Read, "read"),
        (Category::Write, "write"),
        (Category::Set, "set"),
        (Category::SortedSet, "sortedset"),
        (Category::List, "list"),
        (Category::Hash, "hash"),
        (Category::String, "string"),
        (Category::Bitmap, "bitmap"),
        (Category::HyperLogLog, "hyperloglog"),
        (Category::Geo, "geo"),
        (Category::Stream, "stream"),
        (Category::PubSub, "pubsub"),
        (Category::Admin, "admin"),
        (Category::Fast, "fast"),
        (Category::Slow, "slow"),
        (Category::Blocking, "blocking"),
        (Category::Dangerous, "dangerous"),
        (Category::Connection, "connection"),
        (Category::Transaction, "transaction"),
        (Category::Scripting, "scripting"),
    ];

    /// The name, without `@`.
    pub fn name(self) -> &'static str {
        Category::ALL[usize::from(self as u8)].1
    }

    /// The category with this name, case-insensitively.
    pub fn find(name: &[u8]) -> Option<Category> {
        let is_it = |(_, known): &&(Category, &str)| known.as_bytes().eq_ignore_ascii_case(name);
        Category::ALL.iter().find(is_it).map(|(category, _)| *category)
    }
}

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// The empty set.
    pub const NONE: Categories = Categories(0);

    /// The set with this category added.
    pub const fn with(self, category: Category) -> Categories {
        Categories(self.0 | 1 << category as u8)
    }

    /// The set with this category added if `is_so`.
    pub const fn with_if(self, is_so: bool, category: Category) -> Categories {
        if is_so { self.with(category) } else { self }
    }

    /// The set without this category.
    pub const fn without(self, category: Category) -> Categories {
        Categories(self.0 & !(1 << category as u8))
    }

    /// Whether the set contains this category.
    pub const fn has(self, category: Category) -> bool {
        self.0 & 1 << category as u8 != 0
    }

    /// The categories in the set, in the order of ACL CAT.
    pub fn iter(self) -> impl Iterator<Item = Category> {
        Category::ALL.iter().map(|(category, _)| *category).filter(move |one| self.has(*one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_categories() {
        for (at, (category, name)) in Category::ALL.iter().enumerate() {
            assert_eq!(*category as usize, at);
            assert_eq!(category.name(), *name);
            assert_eq!(Category::find(name.to_uppercase().as_bytes()), Some(*category));
        }
        assert_eq!(Category::find(b"all"), None);
        assert_eq!(Category::find(b""), None);
    }
}
