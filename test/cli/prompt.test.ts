import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { createProcessContext } from '../../src/cli/process-context.ts';
import { promptSecret } from '../../src/cli/prompts/prompt.ts';

test('a paste that is too long is read to its end, so that the shell does not run the rest of it', async () => {
  const rawModes: boolean[] = [];
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => rawModes.push(isRaw),
  });
  // Each wait for more input gets some, until these run out.
  const rest = ['x\nrm -rf .\n', 'y\n'];
  const context = {
    ...createProcessContext(),
    stdin,
    stderr: new PassThrough(),
    sleep: async () => {
      const chunk = rest.shift();
      if (chunk !== undefined) stdin.write(chunk);
      await new Promise(setImmediate);
    },
  };
  const prompt = promptSecret(context, 'API key', () => undefined);
  stdin.write('x'.repeat(5_000));
  await expect(prompt).rejects.toMatchObject({ message: 'the input is too long', code: 'usage' });
  expect([rest, stdin.readableLength]).toEqual([[], 0]);
  expect(rawModes).toEqual([true, false, true, false]);
});
