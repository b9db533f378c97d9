import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Command } from 'commander';
import { expect, test } from 'vitest';
import { createConsole } from '../../src/cli/output/console.ts';
import type { CommandContext } from '../../src/cli/program/command.ts';
import { ask, canAsk, promptSecret, promptText } from '../../src/cli/prompts/prompt.ts';
import { createProcessContext } from '../../src/cli/run.ts';
import { InterruptedError } from '../../src/system/clock.ts';

type Situation = { json?: boolean; input?: boolean; stdin?: boolean; stderr?: boolean; ci?: string };

/** A context with a fake terminal of 40 columns. */
function terminalContext({ json = false, input = true, stdin = true, stderr = true, ci }: Situation = {}) {
  const context = {
    ...createProcessContext(),
    env: { CI: ci },
    stdin: Object.assign(new PassThrough(), { isTTY: stdin, setRawMode: () => {} }),
    stderr: Object.assign(new PassThrough(), { isTTY: stderr, columns: 40 }),
  };
  const console = createConsole(context, { json, color: 'never' });
  const globals = { json, input } as CommandContext['globals'];
  return { ...context, console, globals, program: new Command(), startedAt: 0 };
}

/** Asks a question, types each of the keys, and returns the answer and what the terminal showed. */
async function typing(question: string, ...keys: string[]) {
  const context = terminalContext();
  const answer = ask(context, question, ['no', 'stop', 'skip', 'yes']);
  const output = text(context.stderr);
  answer.catch(() => {}).finally(() => context.stderr.end());
  for (const key of keys) {
    context.stdin.write(key);
    await nextTurn();
  }
  return { answer: await answer.catch((error) => error), output: await output };
}

test.each([
  ['y', 'yes'],
  [' YES ', 'yes'],
  ['s', 'stop'],
  ['sk', 'skip'],
  ['', 'no'],
])('the answer %j is %s', async (typed, word) => {
  expect((await typing('Continue?', `${typed}\r`)).answer).toBe(word);
});

test('another answer is asked for again, for example the next command of a paste', async () => {
  const { answer, output } = await typing('Continue?', 'pets list\r', 'yeah\r', 'y\r');
  expect(answer).toBe('yes');
  expect(output.split('type no or stop or skip or yes')).toHaveLength(3);
});

test.each(['\x03', '\x04'])('Ctrl-C and Ctrl-D interrupt: %j', async (key) => {
  expect((await typing('Continue?', key)).answer).toBeInstanceOf(InterruptedError);
});

test.each<[string, boolean, Situation]>([
  ['at a terminal', true, {}],
  ['with --no-input', false, { input: false }],
  ['with --json', false, { json: true }],
  ['if stdin is a pipe', false, { stdin: false }],
  ['if stderr is a pipe', false, { stderr: false }],
  ['in a CI job', false, { ci: 'true' }],
  ['if CI is false', true, { ci: 'false' }],
])('%s, whether a command can ask is %j', (_name, expected, situation) => {
  expect(canAsk(terminalContext(situation))).toBe(expected);
});

/** Prompts at a fake terminal. After each prompt, the next of the pastes arrives, in pieces during the waits. */
async function promptFor(prompt: typeof promptSecret, ...pastes: string[][]) {
  const { stdin, stderr, ...rest } = terminalContext();
  let paste: string[] = [];
  const sleep = async () => {
    stdin.write(paste.shift() ?? '');
    await nextTurn();
  };
  let output = '';
  stderr.on('data', (chunk: Buffer) => {
    output += chunk;
    if (!output.endsWith('API key, input hidden: ') && !output.endsWith('API key: ')) return;
    [paste = []] = pastes.splice(0, 1);
    sleep();
  });
  const validate = (line: string) => (line.startsWith('bad') ? 'wrong' : undefined);
  const answer = await prompt({ ...rest, stdin, stderr, sleep }, 'API key', validate);
  return { answer, output, left: stdin.readableLength };
}

test('a paste of several lines is read to its end and not shown, so that the shell does not run its lines', async () => {
  const paste = ['one\ntwo', 'x\nrm -rf .\n', 'y'];
  const { answer, output, left } = await promptFor(promptSecret, paste, ['key\r']);
  expect([answer, left]).toEqual(['key', 0]);
  expect(output.match(/several lines/g)).toHaveLength(1);
  expect(output).not.toMatch(/one|two|rm/);
});

// Redrawing the line after each character would write 500 KB for 1,000 characters.
test.each([
  ['a secret', promptSecret, 0],
  ['a text', promptText, 1_000],
])(
  'the prompt for %s shows a long paste at most once, erases a wrong line, and asks again',
  async (_, prompt, shown) => {
    const wrong = `bad${'!'.repeat(60)}\r`;
    const { answer, output } = await promptFor(prompt, [wrong], [`${'#'.repeat(1_000)}\r`]);
    expect(answer).toBe('#'.repeat(1_000));
    // The prompt and the wrong line had two rows of the terminal.
    expect(output).toContain(shown ? '\x1b[2A\x1b[Jwrong\n' : '\nwrong\n');
    expect(output.split('#').length - 1).toBe(shown);
  },
);
