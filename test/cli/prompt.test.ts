import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { promptSecret, promptText } from '../../src/cli/prompts/prompt.ts';
import { createProcessContext } from '../../src/cli/run.ts';

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
])(
  'the prompt for %s shows a paste of %i characters at most once, and no secret',
  async (_name, length, ask, limit) => {
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
  },
);
