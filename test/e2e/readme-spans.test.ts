import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { hasPlaceholder, readSpans } from '../helpers/readme-blocks.ts';
import { runLines } from '../helpers/readme-session.ts';

// What stands within a sentence or a table as a command of pets, and the examples of its own help.

const read = (name: string) => readFileSync(join(import.meta.dirname, '..', '..', name), 'utf8');
const spans = ['README.md', 'CONTRIBUTING.md'].flatMap((name) => readSpans(read(name)));

/** That the arguments were understood is known too where only the terminal, or the address, is missing. */
const BEHIND_THE_PARSER = /no terminal to ask|has no base URL/;

async function misunderstood(lines: readonly string[]): Promise<string[]> {
  const ran = await runLines(lines);
  expect(ran).toHaveLength(lines.length);
  return ran
    .filter(({ code, shown }) => code === 127 || (code === 2 && !BEHIND_THE_PARSER.test(shown)))
    .map(({ line, shown }) => `${line}\n${shown}`);
}

test('the program understands each command of the text in which nothing is to be filled in', {
  timeout: 60_000,
}, async () => {
  const whole = spans.filter((span) => !hasPlaceholder(span));
  expect(whole.length).toBeGreaterThan(5);
  expect(await misunderstood(whole)).toEqual([]);
});

test('where something is to be filled in, the command and its options are there', async () => {
  const machine = await freshMachine();
  const overview = (await machine.pets(['help'])).stdout;
  const helps = new Map<string, string | undefined>();
  for (const span of spans.filter(hasPlaceholder)) {
    const [, command = ''] = /^pets ((?:[a-z]+ ?)*)/.exec(span) ?? [];
    const words = command.trim().split(' ');
    const help = helps.get(command) ?? (await helpFor(machine, words));
    helps.set(command, help);
    expect(help, span).toBeDefined();
    const options = span.split(' -- ')[0]?.match(/(?<![\w-])--[a-z][a-z-]*/g) ?? [];
    for (const option of options) expect(`${help}${overview}`, span).toMatch(new RegExp(`${option}[ ,\n]`));
  }
});

/** The help page of a command, or of the group that it is in; arguments may stand behind. */
async function helpFor(machine: Machine, words: readonly string[]): Promise<string | undefined> {
  for (let count = words.length; count > 0; count--) {
    const { code, stdout } = await machine.pets(['help', ...words.slice(0, count)]);
    if (code === 0) return stdout;
  }
  return undefined;
}

test('the program understands each example of its own help', { timeout: 60_000 }, async () => {
  const machine = await freshMachine();
  const commands = (await machine.pets(['help'])).stdout.matchAll(/^ {2}([a-z]+)(?: .*)? {2,}\S/gm);
  const topics = [
    [],
    ...[...commands].map(([, name]) => [name as string]),
    ['keys', 'add'],
    ['keys', 'revoke'],
  ];
  const pages = await Promise.all(
    topics.map(async (topic) => (await machine.pets(['help', ...topic])).stdout),
  );
  const examples = pages.flatMap((page) =>
    [...page.matchAll(/^ {2}(pets .*?)(?: {2,}.*)?$/gm)].map(([, line]) => line as string),
  );
  // Those of other shells are no lines of sh.
  const lines = [...new Set(examples)].filter(
    (line) => !hasPlaceholder(line) && !/fish|powershell/.test(line),
  );
  expect(lines.length).toBeGreaterThan(15);
  expect(await misunderstood(lines)).toEqual([]);
});
