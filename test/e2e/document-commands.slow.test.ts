import { expect, test } from 'vitest';
import { hasPlaceholder, readCommandSpans } from '../helpers/document-blocks.ts';
import { runLines } from '../helpers/document-session.ts';
import { documents } from '../helpers/documents.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';

// Tests of the `pets` commands within sentences and tables of the documents, and of the examples in the help.

const spans = documents.flatMap(readCommandSpans);

/** If only a terminal or a base URL is missing, exit code 2 is fine, because the arguments were valid. */
const ARGUMENTS_ARE_VALID = /can't prompt|no terminal to ask|no base URL/;

/** Runs commands; returns those that the shell or the program does not understand. */
async function misunderstood(commands: readonly { at: string; command: string }[]): Promise<string[]> {
  const results = await runLines(commands.map(({ command }) => command));
  return commands.flatMap(({ at, command }, i) => {
    const { code, output } = results[i] ?? { code: Number.NaN, output: 'did not run' };
    const isWrong = Number.isNaN(code) || code === 127 || (code === 2 && !ARGUMENTS_ARE_VALID.test(output));
    return isWrong ? [`${at}: ${command}\n${output}`] : [];
  });
}

test('the program understands every command in the text without a placeholder', {
  timeout: 120_000,
}, async () => {
  const commands = spans.filter(({ command }) => !hasPlaceholder(command));
  expect(commands.length).toBeGreaterThan(5);
  expect(await misunderstood(commands)).toEqual([]);
});

test('the command and options of every command with a placeholder exist', { timeout: 60_000 }, async () => {
  const machine = await freshMachine();
  const overview = (await machine.pets(['help'])).stdout;
  const problems: string[] = [];
  for (const { at, command } of spans.filter((span) => hasPlaceholder(span.command))) {
    const [, words = ''] = /^pets ((?:[a-z]+ ?)*)/.exec(command) ?? [];
    const help = await helpFor(machine, words.trim().split(' '));
    const options = command.split(' -- ')[0]?.match(/(?<![\w-])--[a-z][a-z-]*/g) ?? [];
    const unknown = options.filter((option) => !new RegExp(`${option}[ ,\n]`).test(`${help}${overview}`));
    if (help === undefined || unknown.length > 0) problems.push(`${at}: ${command} ${unknown.join(' ')}`);
  }
  expect(problems).toEqual([]);
});

/** Returns the help of the command or group with which `words` start. The other words may be arguments. */
async function helpFor(machine: Machine, words: readonly string[]): Promise<string | undefined> {
  for (let count = words.length; count > 0; count--) {
    const { code, stdout } = await machine.pets(['help', ...words.slice(0, count)]);
    if (code === 0) return stdout;
  }
  return undefined;
}

test('the program understands every example in its help', { timeout: 120_000 }, async () => {
  const machine = await freshMachine();
  const overview = (await machine.pets(['help'])).stdout;
  const names = [...overview.matchAll(/^ {2}([a-z]+)(?: .*)? {2,}\S/gm)].map(([, name]) => [name as string]);
  const topics = [[], ...names, ['keys', 'add'], ['keys', 'revoke']];
  const examples = new Map<string, string>();
  for (const topic of topics) {
    const { stdout } = await machine.pets(['help', ...topic]);
    for (const [, line = ''] of stdout.matchAll(/^ {2}(pets .*?)(?: {2,}.*)?$/gm)) {
      // Examples for other shells are not valid in sh.
      if (!hasPlaceholder(line) && !/fish|powershell/.test(line))
        examples.set(line, `pets help ${topic.join(' ')}`);
    }
  }
  expect(examples.size).toBeGreaterThan(15);
  expect(await misunderstood([...examples].map(([command, at]) => ({ at, command })))).toEqual([]);
});
