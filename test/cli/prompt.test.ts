import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createConsole } from '../../src/cli/output/console.ts';
import type { CommandContext } from '../../src/cli/program/command.ts';
import { canConfirm, confirm, promptSecret, promptText } from '../../src/cli/prompts/prompt.ts';
import { createProcessContext } from '../../src/cli/run.ts';
import { InterruptedError } from '../../src/system/interrupted-error.ts';

type Situation = { json?: boolean; input?: boolean; stdin?: boolean; stderr?: boolean };

/** A context with a fake terminal of 40 columns. */
function terminalContext({ json = false, input = true, stdin = true, stderr = true }: Situation = {}) {
  const context = {
    ...createProcessContext(),
    stdin: Object.assign(new PassThrough(), { isTTY: stdin, setRawMode: () => {} }),
    stderr: Object.assign(new PassThrough(), { isTTY: stderr, columns: 40 }),
  };
  const console = createConsole(context, { json, color: 'never' });
  const globals = { json, input } as CommandContext['globals'];
  return { ...context, console, globals, commands: [] };
}

/** Asks a question, types each of the keys, and returns the answer and what the terminal showed. */
async function ask(question: string, ...keys: string[]) {
  const context = terminalContext();
  const answer = confirm(context, question);
  const output = text(context.stderr);
  answer.catch(() => {}).finally(() => context.stderr.end());
  for (const key of keys) {
    context.stdin.write(key);
    await nextTurn();
  }
  return { answer: await answer.catch((error) => error), output: await output };
}

const YES = ['y', 'YES', ' yes '];

test.each([...YES, 'n', 'No', ''])('the answer %j is yes or no', async (typed) => {
  expect((await ask('Continue?', `${typed}\r`)).answer).toBe(YES.includes(typed));
});

test('another answer is asked for again, for example the next command of a paste', async () => {
  const { answer, output } = await ask('Continue?', 'pets list\r', 'yeah\r', 'y\r');
  expect(answer).toBe(true);
  expect(output.split('type y for yes or n for no')).toHaveLength(3);
});

test.each(['\x03', '\x04'])('Ctrl-C and Ctrl-D interrupt: %j', async (key) => {
  expect((await ask('Continue?', key)).answer).toBeInstanceOf(InterruptedError);
});

test('the question is wrapped between words, and control characters in it are escaped', async () => {
  const { output } = await ask(
    'This question is longer than one line of the \x1b[2J terminal. Continue?',
    'y\r',
  );
  expect(output.split('\n')[0]).toBe('This question is longer than one line of');
  expect(output).not.toContain('\x1b[2J');
});

test.each<[string, boolean, Situation]>([
  ['at a terminal', true, {}],
  ['with --no-input', false, { input: false }],
  ['with --json', false, { json: true }],
  ['if stdin is a pipe', false, { stdin: false }],
  ['if stderr is a pipe', false, { stderr: false }],
])('%s, whether a command can ask is %j', (_name, expected, situation) => {
  expect(canConfirm(terminalContext(situation))).toBe(expected);
});

/** Prompts at a fake terminal. `sleep` is called instead of each wait for the rest of a paste. */
function promptAt(ask: typeof promptSecret, sleep: () => void = () => {}) {
  const rawModes: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => rawModes.push(isRaw),
  });
  const stderr = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const context = {
    ...createProcessContext(),
    stdin,
    stderr,
    sleep: async () => {
      sleep();
      await nextTurn();
    },
  };
  const answer = ask(context, 'API key', () => undefined);
  answer.catch(() => {}).finally(() => stderr.end());
  return { stdin, rawModes, answer, output: text(stderr) };
}

test('a paste that is too long is read to its end, so that the shell does not run the rest of it', async () => {
  // One of these chunks arrives in each wait for the rest of the paste.
  const rest = ['x\nrm -rf .\n', 'y\n'];
  const { stdin, rawModes, answer } = promptAt(promptSecret, () => {
    const chunk = rest.shift();
    if (chunk !== undefined) stdin.write(chunk);
  });
  stdin.write('x'.repeat(5_000));
  await expect(answer).rejects.toMatchObject({ message: 'the input is too long', code: 'usage' });
  expect([rest, stdin.readableLength]).toEqual([[], 0]);
  expect(rawModes).toEqual([true, false, true, false]);
});

// Redrawing the line after each character would write 500 KB for 1,000 characters.
test.each([
  ['a secret', 1_000, promptSecret, 0],
  ['a secret', 20_000, promptSecret, 0],
  ['a text', 1_000, promptText, 1_000],
  ['a text', 20_000, promptText, 4_096],
])('the prompt for %s shows %i pasted characters once, and no secret', async (_name, length, ask, limit) => {
  const { stdin, answer, output } = promptAt(ask);
  // A terminal delivers a paste in pieces.
  for (let left = length; left > 0; left -= 100) {
    stdin.write('x'.repeat(100));
    await nextTurn();
  }
  stdin.write('\r');
  if (length === 1_000) expect(await answer).toBe('x'.repeat(length));
  else await expect(answer).rejects.toThrow('the input is too long');
  const written = await output;
  expect(written.split('x').length - 1).toBeLessThanOrEqual(limit);
  expect(written.length).toBeLessThanOrEqual(limit + 100);
});
