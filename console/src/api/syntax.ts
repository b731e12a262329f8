// The syntax of a command as text, from what COMMAND DOCS tells of its arguments; and what begins
// with what was typed. Tests: tests/unit/syntax.test.ts.

import type { Argument, CommandRow } from './http';

const isOptional = (argument: Argument) =>
  argument.optional === true || argument.flags?.includes('optional') === true;
const isMultiple = (argument: Argument) =>
  argument.multiple === true || argument.flags?.includes('multiple') === true;
const repeatsToken = (argument: Argument) =>
  argument.multiple_token === true || argument.flags?.includes('multiple_token') === true;

/** `key value [NX | XX] [EX seconds]` */
export function syntaxOf(row: CommandRow): string {
  return (row.args ?? []).map(argumentText).join(' ');
}

function argumentText(argument: Argument): string {
  const parts = argument.arguments ?? [];
  let text = argument.display_text ?? argument.name;
  if (argument.type === 'oneof') text = parts.map(argumentText).join(' | ');
  else if (argument.type === 'block') text = parts.map(argumentText).join(' ');
  else if (argument.type === 'pure-token') text = '';
  const grouped = argument.type === 'oneof' && !isOptional(argument) ? `<${text}>` : text;
  let whole = [argument.token, grouped].filter(Boolean).join(' ');
  if (isMultiple(argument)) whole += ` [${repeatsToken(argument) ? whole : text} ...]`;
  return isOptional(argument) ? `[${whole}]` : whole;
}

/** The command that a line begins with: the longest name, as CONFIG GET. */
export function rowOf(rows: CommandRow[], line: string): CommandRow | undefined {
  const typed = `${line.trim().toUpperCase().replace(/\s+/g, ' ')} `;
  let best: CommandRow | undefined;
  for (const row of rows) {
    if (typed.startsWith(`${row.name} `) && row.name.length > (best?.name.length ?? 0)) best = row;
  }
  return best;
}

const MAX_COMPLETIONS = 12;

/** Commands whose name begins with the line; those that were typed whole come first. */
export function completionsOf(rows: CommandRow[], line: string): CommandRow[] {
  const typed = line.trimStart().toUpperCase().replace(/\s+/g, ' ');
  if (typed === '') return [];
  const found = rows.filter((row) => row.name.startsWith(typed));
  found.sort((a, b) => a.name.length - b.name.length || (a.name < b.name ? -1 : 1));
  return found.slice(0, MAX_COMPLETIONS);
}
