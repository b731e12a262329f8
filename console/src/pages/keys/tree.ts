// Keys as a tree of their prefixes, and the rows of it that are open.
//
// Keys that are no text stand at the root. Tests: tests/unit/tree.test.ts.

import { asText, type Word, wordId } from '../../api/reply';
import { visible } from '../../api/words';

export interface Folder {
  /** The last part of the prefix. */
  name: string;
  /** The prefix with the separator at its end; of the root nothing. */
  prefix: string;
  folders: Map<string, Folder>;
  keys: Word[];
  /** Keys below it. */
  count: number;
}

export type Row =
  | { kind: 'folder'; id: string; depth: number; folder: Folder; open: boolean }
  | { kind: 'key'; id: string; depth: number; key: Word; label: string };

export const emptyFolder = (name = '', prefix = ''): Folder => ({
  name,
  prefix,
  folders: new Map(),
  keys: [],
  count: 0,
});

/** Deeper parts of a prefix are one. */
const MAX_DEPTH = 12;

export function add(root: Folder, key: Word, separator: string): void {
  root.count += 1;
  let folder = root;
  if (typeof key === 'string' && separator !== '') {
    let at = 0;
    for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
      const end = key.indexOf(separator, at);
      if (end < 0 || end + separator.length >= key.length) break;
      const name = key.slice(at, end);
      at = end + separator.length;
      let next = folder.folders.get(name);
      if (!next) {
        next = emptyFolder(name, key.slice(0, at));
        folder.folders.set(name, next);
      }
      next.count += 1;
      folder = next;
    }
  }
  folder.keys.push(key);
}

export function treeOf(keys: Word[], separator: string): Folder {
  const root = emptyFolder();
  for (const key of keys) add(root, key, separator);
  return root;
}

/** The rows that are seen: folders first, each in order of names. */
export function rowsOf(root: Folder, isOpen: (prefix: string) => boolean): Row[] {
  const rows: Row[] = [];
  const visit = (folder: Folder, depth: number) => {
    for (const name of [...folder.folders.keys()].sort(byText)) {
      const child = folder.folders.get(name) as Folder;
      const open = isOpen(child.prefix);
      rows.push({ kind: 'folder', id: `/${child.prefix}`, depth, folder: child, open });
      if (open) visit(child, depth + 1);
    }
    const named = folder.keys.map((key) => ({ key, text: asText(key) }));
    const order = named.length > MAX_COLLATED ? byCodes : byText;
    named.sort((a, b) => order(a.text, b.text));
    for (const { key, text } of named) {
      rows.push(rowOf(key, depth, text.slice(folder.prefix.length)));
    }
  };
  visit(root, 0);
  return rows;
}

export const rowOf = (key: Word, depth = 0, label = asText(key)): Row => ({
  kind: 'key',
  id: wordId(key),
  depth,
  key,
  label: visible(label) || '(empty)',
});

const COLLATOR = new Intl.Collator('en', { numeric: true });
/** Above this the order of numbers costs more than it helps. */
const MAX_COLLATED = 5_000;
const byCodes = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
const byText = (a: string, b: string) => COLLATOR.compare(a, b);
