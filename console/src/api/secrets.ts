// Which command lines hold a secret: those are not kept. A word too many is suspected rather than one
// too few: a line may be wrong and still hold a password. Tests: tests/unit/secrets.test.ts.

import { asText } from './reply';
import { wordsOf } from './words';

/** Commands whose arguments may be passwords. */
const COMMANDS = /^(AUTH|HELLO|MIGRATE|ACL SETUSER)( |$)/;
/** What the names of settings with secrets have in them. */
const SETTING = /pass|secret|auth|headers/i;

export function holdsSecret(line: string): boolean {
  const words = looseWordsOf(line);
  const text = words.join(' ').toUpperCase();
  if (COMMANDS.test(text)) return true;
  return text.startsWith('CONFIG SET ') && words.slice(2).some((word) => SETTING.test(word));
}

/** The words, also of a line with a quote that stays open. */
function looseWordsOf(line: string): string[] {
  try {
    return wordsOf(line).map(asText);
  } catch {
    return line
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/^["']|["']$/g, ''));
  }
}
