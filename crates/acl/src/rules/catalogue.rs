//! The commands that rules can name: names, numbers, categories.

use std::collections::HashMap;

use super::category::{Categories, Category};

/// A command's number: its position in the command table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u16);

/// One command, as far as rules need it.
#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    /// `name`, or `container|name`, in lower case; empty for a command that no rule can name.
    pub name: String,
    /// Its categories.
    pub categories: Categories,
    /// Allowed for everybody, even before AUTH: no rule can forbid it.
    pub is_open: bool,
}

/// All commands. An entry's position is the command's number.
#[derive(Debug, Default)]
pub struct Catalogue {
    entries: Vec<CatalogueEntry>,
    by_name: HashMap<String, CommandId>,
    subcommands: Vec<Vec<CommandId>>,
}

impl Catalogue {
    /// The catalogue of these commands, subcommands included.
    pub fn new(entries: Vec<CatalogueEntry>) -> Catalogue {
        let numbered = entries.iter().zip(0..);
        let named = numbered.filter(|(entry, _)| !entry.name.is_empty());
        let by_name: HashMap<_, _> =
            named.map(|(entry, number)| (entry.name.clone(), CommandId(number))).collect();
        let mut subcommands = vec![Vec::new(); entries.len()];
        for (entry, number) in entries.iter().zip(0..) {
            let parent = entry.name.split_once('|').and_then(|(name, _)| by_name.get(name));
            if let Some(CommandId(parent)) = parent {
                subcommands[usize::from(*parent)].push(CommandId(number));
            }
        }
        Catalogue { entries, by_name, subcommands }
    }

    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All commands.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, &CatalogueEntry)> {
        (0..).map(CommandId).zip(&self.entries)
    }

    /// Finds a command by `name` or `container|name`, case-insensitively.
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let name = std::str::from_utf8(name).ok()?;
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// The entry of a command.
    pub fn entry(&self, id: CommandId) -> Option<&CatalogueEntry> {
        self.entries.get(usize::from(id.0))
    }

    /// The subcommands of a container.
    pub fn subcommands(&self, id: CommandId) -> &[CommandId] {
        self.subcommands.get(usize::from(id.0)).map_or(&[], Vec::as_slice)
    }

    /// Whether it is a subcommand.
    pub fn is_subcommand(&self, id: CommandId) -> bool {
        self.entry(id).is_some_and(|entry| entry.name.contains('|'))
    }

    /// The commands of a category.
    pub fn of_category(
        &self,
        category: Category,
    ) -> impl Iterator<Item = (CommandId, &CatalogueEntry)> {
        self.iter().filter(move |(_, entry)| entry.categories.has(category))
    }
}
